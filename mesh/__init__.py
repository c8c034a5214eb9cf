"""Floor 3: DeviceMesh, named dimensions over ranks."""
