"""Operations on arrays: checked, and issued in the lane of their group."""
