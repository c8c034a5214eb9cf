"""The methods of a tensor, by what they do; `Tensor` inherits them all."""
