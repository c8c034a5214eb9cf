"""The methods of a tensor as functions: ``sw.exp(x)`` is ``x.exp()``, and takes plain arrays too.

Each has the arguments and the documentation of the method of its name (`Tensor.exp`), with the tensor first,
by the name ``input``. Of plain arrays (NumPy's, CuPy's) it gives plain arrays; if one of its arguments is a
tensor, it gives tensors. Where there are two operands, the first may be a Python number if the other is a
tensor or an array. Anything else is an error that says so. ``out=`` names a tensor to write the result into.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from shardwise.tensor.form import X, fact, form, pair_form, parts_form, power_form, two_form
from shardwise.tensor.tensor import Tensor

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr",
    "adjoint", "all", "allclose", "amax", "amin", "aminmax", "angle", "any", "arccos", "arccosh",
    "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort", "argwhere",
    "asin", "asinh", "atan", "atan2", "atanh", "baddbmm", "bincount", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bmm", "broadcast_to", "cbrt",
    "ceil", "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_max", "clamp_min",
    "clip", "clone", "conj", "conj_physical", "copysign", "corrcoef", "cos", "cosh", "count_nonzero",
    "cov", "cross", "cummax", "cummin", "cumprod", "cumsum", "deg2rad", "det", "detach", "diag",
    "diag_embed", "diagflat", "diagonal", "diff", "digamma", "dist", "div", "divide", "dot", "dsplit",
    "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "fix", "flatten", "flip", "fliplr",
    "flipud", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod", "frac", "gather", "gcd",
    "ge", "ger", "greater", "greater_equal", "gt", "heaviside", "histc", "histogram", "hsplit", "hypot",
    "i0", "i0e", "i1", "i1e", "imag", "index_add", "index_copy", "index_fill", "index_put",
    "index_select", "inner", "inverse", "is_complex", "is_floating_point", "is_same_size", "is_signed",
    "is_tensor", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "kron",
    "kthvalue", "lcm", "ldexp", "le", "lerp", "less", "less_equal", "lgamma", "log", "log1p", "log2",
    "log10", "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logit", "logsumexp", "lt", "masked_fill",
    "masked_scatter", "masked_select", "matmul", "matrix_exp", "matrix_power", "max", "maximum", "mean",
    "median", "min", "minimum", "mm", "mode", "moveaxis", "movedim", "msort", "mul", "multiply", "mv",
    "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "ne", "neg", "negative",
    "nonzero", "norm", "not_equal", "numel", "outer", "permute", "pinverse", "polygamma", "positive",
    "pow", "prod", "ptp", "put", "qr", "quantile", "rad2deg", "ravel", "real", "reciprocal", "relu",
    "remainder", "repeat_interleave", "reshape", "roll", "rot90", "round", "rsqrt", "scatter",
    "scatter_add", "scatter_reduce", "select", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh",
    "slogdet", "softmax", "sort", "split", "sqrt", "square", "squeeze", "std", "std_mean", "sub",
    "subtract", "sum", "svd", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh",
    "tensor_split", "tile", "topk", "trace", "transpose", "tril", "triu", "true_divide", "trunc",
    "unbind", "unflatten", "unique", "unique_consecutive", "unsqueeze", "var", "var_mean", "vdot",
    "vsplit", "xlog1py", "xlogy",
]  # fmt: skip

# ---- arithmetic

add = form(Tensor.add, numbers=True)
sub = subtract = form(Tensor.sub, numbers=True)
mul = multiply = two_form(Tensor.mul)
div = divide = form(Tensor.div, numbers=True)
true_divide = two_form(Tensor.true_divide)
floor_divide = two_form(Tensor.floor_divide)
remainder = two_form(Tensor.remainder)
fmod = two_form(Tensor.fmod)
neg = negative = form(Tensor.neg)
positive = form(Tensor.positive)
abs = absolute = form(Tensor.abs)
addcmul = form(Tensor.addcmul)
addcdiv = form(Tensor.addcdiv)
lerp = form(Tensor.lerp)
ldexp = two_form(Tensor.ldexp)
pow = power_form(Tensor.pow)
float_power = power_form(Tensor.float_power)
square = form(Tensor.square)
sqrt = form(Tensor.sqrt)
rsqrt = form(Tensor.rsqrt)
cbrt = form(Tensor.cbrt)
reciprocal = form(Tensor.reciprocal)
hypot = two_form(Tensor.hypot)
gcd = two_form(Tensor.gcd)
lcm = two_form(Tensor.lcm)

# ---- exponentials, angles, special functions

exp = form(Tensor.exp)
exp2 = form(Tensor.exp2)
expm1 = form(Tensor.expm1)
log = form(Tensor.log)
log2 = form(Tensor.log2)
log10 = form(Tensor.log10)
log1p = form(Tensor.log1p)
logaddexp = two_form(Tensor.logaddexp)
logaddexp2 = two_form(Tensor.logaddexp2)
xlogy = two_form(Tensor.xlogy)
xlog1py = two_form(Tensor.xlog1py)
sigmoid = form(Tensor.sigmoid)
logit = form(Tensor.logit)
sin = form(Tensor.sin)
cos = form(Tensor.cos)
tan = form(Tensor.tan)
asin = arcsin = form(Tensor.asin)
acos = arccos = form(Tensor.acos)
atan = arctan = form(Tensor.atan)
atan2 = arctan2 = two_form(Tensor.atan2)
sinh = form(Tensor.sinh)
cosh = form(Tensor.cosh)
tanh = form(Tensor.tanh)
asinh = arcsinh = form(Tensor.asinh)
acosh = arccosh = form(Tensor.acosh)
atanh = arctanh = form(Tensor.atanh)
sinc = form(Tensor.sinc)
deg2rad = form(Tensor.deg2rad)
rad2deg = form(Tensor.rad2deg)
erf = form(Tensor.erf)
erfc = form(Tensor.erfc)
erfinv = form(Tensor.erfinv)
lgamma = form(Tensor.lgamma)
digamma = form(Tensor.digamma)
i0 = form(Tensor.i0)
i0e = form(Tensor.i0e)
i1 = form(Tensor.i1)
i1e = form(Tensor.i1e)
_polygamma = form(Tensor.polygamma)


def polygamma(n: int, input: X) -> X:
    """Return the derivative of order `n` of the digamma function of each element."""
    return _polygamma(input, n)


# ---- parts, rounding, choices

floor = form(Tensor.floor)
ceil = form(Tensor.ceil)
trunc = fix = form(Tensor.trunc)
round = form(Tensor.round)
frac = form(Tensor.frac)
sign = form(Tensor.sign)
sgn = form(Tensor.sgn)
copysign = two_form(Tensor.copysign)
heaviside = form(Tensor.heaviside, numbers=True)
conj = conj_physical = form(Tensor.conj)
angle = form(Tensor.angle)
relu = form(Tensor.relu)
maximum = two_form(Tensor.maximum)
minimum = two_form(Tensor.minimum)
fmax = two_form(Tensor.fmax)
fmin = two_form(Tensor.fmin)
clamp = clip = form(Tensor.clamp)
clamp_min = form(Tensor.clamp_min)
clamp_max = form(Tensor.clamp_max)
nan_to_num = form(Tensor.nan_to_num)
masked_fill = form(Tensor.masked_fill)
softmax = form(Tensor.softmax)
log_softmax = form(Tensor.log_softmax)


def _real(input: Tensor) -> Tensor:
    """Return the real parts; real numbers come back as they are."""
    return input.real


def _imag(input: Tensor) -> Tensor:
    """Return the imaginary parts; of real numbers they are zeros."""
    return input.imag


real = form(_real)
imag = form(_imag)


def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """Tell whether something is a tensor."""
    return isinstance(obj, Tensor)


# ---- comparisons, logic, bits, facts

eq = two_form(Tensor.eq)
ne = not_equal = two_form(Tensor.ne)
lt = less = two_form(Tensor.lt)
le = less_equal = two_form(Tensor.le)
gt = greater = two_form(Tensor.gt)
ge = greater_equal = two_form(Tensor.ge)
isclose = form(Tensor.isclose)
allclose = fact(Tensor.allclose)
equal = fact(Tensor.equal)
isnan = form(Tensor.isnan)
isinf = form(Tensor.isinf)
isposinf = form(Tensor.isposinf)
isneginf = form(Tensor.isneginf)
isfinite = form(Tensor.isfinite)
isreal = form(Tensor.isreal)
signbit = form(Tensor.signbit)
logical_not = form(Tensor.logical_not)
logical_and = two_form(Tensor.logical_and)
logical_or = two_form(Tensor.logical_or)
logical_xor = two_form(Tensor.logical_xor)
bitwise_not = form(Tensor.bitwise_not)
bitwise_and = two_form(Tensor.bitwise_and)
bitwise_or = two_form(Tensor.bitwise_or)
bitwise_xor = two_form(Tensor.bitwise_xor)
bitwise_left_shift = two_form(Tensor.bitwise_left_shift)
bitwise_right_shift = two_form(Tensor.bitwise_right_shift)
numel = fact(Tensor.numel)
is_floating_point = fact(Tensor.is_floating_point)
is_complex = fact(Tensor.is_complex)
is_signed = fact(Tensor.is_signed)
is_same_size = fact(Tensor.is_same_size)

# ---- reductions, running results, statistics

sum = form(Tensor.sum)
nansum = form(Tensor.nansum)
mean = form(Tensor.mean)
nanmean = form(Tensor.nanmean)
prod = form(Tensor.prod)
amax = form(Tensor.amax)
amin = form(Tensor.amin)
aminmax = fact(Tensor.aminmax)
max = fact(Tensor.max)
min = fact(Tensor.min)
argmax = form(Tensor.argmax)
argmin = form(Tensor.argmin)
ptp = form(Tensor.ptp)
all = form(Tensor.all)
any = form(Tensor.any)
count_nonzero = form(Tensor.count_nonzero)
trace = form(Tensor.trace)
cumsum = form(Tensor.cumsum)
cumprod = form(Tensor.cumprod)
cummax = pair_form(Tensor.cummax)
cummin = pair_form(Tensor.cummin)
logcumsumexp = form(Tensor.logcumsumexp)
diff = form(Tensor.diff)
var = form(Tensor.var)
std = form(Tensor.std)
var_mean = fact(Tensor.var_mean)
std_mean = fact(Tensor.std_mean)
logsumexp = form(Tensor.logsumexp)
norm = form(Tensor.norm)
dist = form(Tensor.dist)
quantile = form(Tensor.quantile)
nanquantile = form(Tensor.nanquantile)
cov = form(Tensor.cov)
corrcoef = form(Tensor.corrcoef)
histc = form(Tensor.histc)
histogram = fact(Tensor.histogram)

# ---- order

sort = pair_form(Tensor.sort)
argsort = form(Tensor.argsort)
msort = form(Tensor.msort)
topk = pair_form(Tensor.topk)
kthvalue = pair_form(Tensor.kthvalue)
median = fact(Tensor.median)
nanmedian = fact(Tensor.nanmedian)
mode = pair_form(Tensor.mode)
unique = fact(Tensor.unique)
unique_consecutive = fact(Tensor.unique_consecutive)
nonzero = fact(Tensor.nonzero)
argwhere = form(Tensor.argwhere)
bincount = form(Tensor.bincount)

# ---- shape

reshape = form(Tensor.reshape)
flatten = form(Tensor.flatten)
ravel = form(Tensor.ravel)
unflatten = form(Tensor.unflatten)
permute = form(Tensor.permute)
transpose = form(Tensor.transpose)
swapaxes = form(Tensor.swapaxes)
swapdims = form(Tensor.swapdims)
movedim = form(Tensor.movedim)
moveaxis = form(Tensor.moveaxis)
t = form(Tensor.t)
adjoint = form(Tensor.adjoint)
squeeze = form(Tensor.squeeze)
unsqueeze = form(Tensor.unsqueeze)
broadcast_to = form(Tensor.broadcast_to)
flip = form(Tensor.flip)
fliplr = form(Tensor.fliplr)
flipud = form(Tensor.flipud)
roll = form(Tensor.roll)
rot90 = form(Tensor.rot90)
tile = form(Tensor.tile)
repeat_interleave = form(Tensor.repeat_interleave)
tril = form(Tensor.tril)
triu = form(Tensor.triu)
diag = form(Tensor.diag)
diag_embed = form(Tensor.diag_embed)
diagflat = form(Tensor.diagflat)
diagonal = form(Tensor.diagonal)
chunk = parts_form(Tensor.chunk)
tensor_split = parts_form(Tensor.tensor_split)
hsplit = parts_form(Tensor.hsplit)
vsplit = parts_form(Tensor.vsplit)
dsplit = parts_form(Tensor.dsplit)
unbind = parts_form(Tensor.unbind)
clone = form(Tensor.clone)
detach = form(Tensor.detach)
_split = parts_form(Tensor.split)


def split(tensor: X, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[X, ...]:
    """Return pieces of a size, or of sizes, along `dim`: views. The last may be smaller."""
    return _split(tensor, split_size_or_sections, dim)


# ---- selection

narrow = form(Tensor.narrow)
select = form(Tensor.select)
index_select = form(Tensor.index_select)
gather = form(Tensor.gather)
take_along_dim = form(Tensor.take_along_dim)
take = form(Tensor.take)
masked_select = form(Tensor.masked_select)
scatter = form(Tensor.scatter)
scatter_add = form(Tensor.scatter_add)
scatter_reduce = form(Tensor.scatter_reduce)
index_add = form(Tensor.index_add)
index_copy = form(Tensor.index_copy)
index_fill = form(Tensor.index_fill)
index_put = form(Tensor.index_put)
put = form(Tensor.put)
masked_scatter = form(Tensor.masked_scatter)

# ---- linear algebra

matmul = two_form(Tensor.matmul)
mm = form(Tensor.mm)
bmm = form(Tensor.bmm)
mv = form(Tensor.mv)
dot = form(Tensor.dot)
vdot = form(Tensor.vdot)
inner = form(Tensor.inner)
outer = ger = form(Tensor.outer)
kron = form(Tensor.kron)
cross = form(Tensor.cross)
addmm = form(Tensor.addmm)
addmv = form(Tensor.addmv)
addr = form(Tensor.addr)
baddbmm = form(Tensor.baddbmm)
addbmm = form(Tensor.addbmm)
inverse = form(Tensor.inverse)
pinverse = form(Tensor.pinverse)
det = form(Tensor.det)
logdet = form(Tensor.logdet)
slogdet = fact(Tensor.slogdet)
matrix_power = form(Tensor.matrix_power)
matrix_exp = form(Tensor.matrix_exp)
cholesky = form(Tensor.cholesky)
cholesky_solve = form(Tensor.cholesky_solve)
cholesky_inverse = form(Tensor.cholesky_inverse)
qr = fact(Tensor.qr)
svd = fact(Tensor.svd)
