"""Every kernel of a function of single elements, in one tuple."""

from __future__ import annotations

from shardwise.backend.kernels.activation import gate, piecewise, rectifier, silu, smooth
from shardwise.backend.kernels.pointwise import choice, combination, likelihood, regression

__all__ = ["POINTWISE_KERNELS"]

POINTWISE_KERNELS = (
    *(combination.add_product, combination.add_quotient, combination.interpolate),
    *(combination.clip, combination.cube, combination.inverse_root, rectifier.relu_forward),
    *(rectifier.leaky_relu_forward, rectifier.leaky_relu_backward),
    *(rectifier.prelu_forward, rectifier.prelu_backward, rectifier.prelu_weight),
    *(rectifier.elu_forward, rectifier.elu_backward),
    *(rectifier.threshold_forward, rectifier.threshold_backward),
    *(piecewise.between, piecewise.beyond, piecewise.soft_shrink_forward),
    *(piecewise.hard_sigmoid_forward, piecewise.hard_sigmoid_backward),
    *(piecewise.hard_swish_forward, piecewise.hard_swish_backward),
    *(silu.silu_forward, silu.silu_backward),
    *(gate.silu_gate_forward, gate.silu_gate_backward),
    *(smooth.sigmoid_forward, smooth.sigmoid_backward, smooth.tanh_backward, smooth.tanh_shrink_backward),
    *(smooth.softplus_forward, smooth.softplus_backward),
    *(smooth.log_sigmoid_forward, smooth.log_sigmoid_backward),
    *(smooth.mish_forward, smooth.mish_backward, smooth.soft_sign_forward, smooth.soft_sign_backward),
    *(choice.choose, choice.fill, choice.fill_rest, choice.within, choice.larger_share),
    *(regression.squared_error_forward, regression.squared_error_backward),
    *(regression.absolute_error_forward, regression.absolute_error_backward),
    *(regression.smooth_l1_forward, regression.smooth_l1_backward),
    *(regression.huber_forward, regression.huber_backward),
    *(likelihood.logistic_loss_forward, likelihood.logistic_loss_backward),
    *(likelihood.binary_cross_entropy_backward, likelihood.negative_product),
)
