"""Sentences beside formulas, by others or written after the rule that reads them: those that change a formula, each
with the formula that it changes, and those in the manner of real papers that change none.
"""

from __future__ import annotations

from typing import Final

from tests.sentences_beside import (
    ADDED,
    ENTRIES,
    LARGEST,
    LENGTH,
    LOGARITHM,
    NORM,
    PRODUCT,
    RECTIFIED,
    SCORES,
    SUM,
)

# Of a reader who had not seen the rule.
REVIEWED: Final[list[tuple[str, str]]] = [
    ("Each column of the attention weights sums to one.", SCORES),
    ("It is the columns of the scores that sum to one.", SCORES),
    ("The weights of each key sum to one.", SCORES),
    ("The softmax is along the columns.", SCORES),
    ("The softmax is over the tokens of the query.", SCORES),
    ("Here softmax has a temperature of $2$.", SCORES),
    ("The softmax has a temperature that is learned.", SCORES),
    ("Attention is over the previous positions.", SCORES),
    ("The model is causal.", SCORES),
    ("Each query has access to one key.", SCORES),
    ("We work in log space.", SCORES),
    ("Attention is local.", SCORES),
    ("Each token attends to earlier tokens.", SCORES),
    ("Each position may see the earlier positions.", SCORES),
    ("Each query may see itself and the earlier positions.", SCORES),
    ("Later positions are not seen.", SCORES),
    ("Positions that come later are not known to the query.", SCORES),
    ("A token knows the tokens before it.", SCORES),
    ("The decoder is the standard one, where a position cannot see what comes after it.", SCORES),
    ("In the decoder the upper part of the matrix is not used.", SCORES),
    ("By the sum we mean the average.", SUM),
    ("The sum is over the first $3$ entries.", SUM),
    ("The sum goes from $2$ to $d$.", SUM),
    ("The sum begins at $i = 2$.", SUM),
    ("Here $i$ is even.", SUM),
    ("The index $i$ is even.", SUM),
    ("The first term has the weight $2$.", SUM),
    ("Each term has a weight of $i$.", SUM),
    ("Terms of high index get a weight of $2$.", SUM),
    ("The largest entry is known to the sum, others are not.", SUM),
    ("We use the norm of each entry in the sum.", SUM),
    ("We sum magnitudes.", SUM),
    ("The first entry is special, and does not enter the sum.", SUM),
    ("The last entry is not in the sum.", SUM),
    ("The sum is in base two.", SUM),
    ("The logarithm is the one in base $2$.", LOGARITHM),
    ("All logarithms are to base $10$.", LOGARITHM),
    ("The logarithm of the norm is meant.", LOGARITHM),
    ("The logarithm is taken once more.", LOGARITHM),
    ("The logarithm is applied again.", LOGARITHM),
    ("The maximum is over the norms.", LARGEST),
    ("The maximum is the largest in norm.", LARGEST),
    ("The maximum is taken over all vectors $u$ and $v$.", LARGEST),
    ("We take the maximum over the magnitudes.", LARGEST),
    ("The norm is the one of the last layer.", LENGTH),
    ("We use the norm with $p = 1$.", LENGTH),
    ("The norm is the sum of the magnitudes.", LENGTH),
    (r"Here the norm is the $\ell_1$ norm.", LENGTH),
    ("The norm is Frobenius.", LENGTH),
    ("The norm is the L1 norm.", LENGTH),
    ("The output is the transpose.", PRODUCT),
    ("The output is the inverse.", PRODUCT),
    ("The inverse is used.", PRODUCT),
    ("Here $W$ means the inverse matrix.", PRODUCT),
    ("By $W$ we understand its inverse.", PRODUCT),
    ("By $W$ we mean its transpose.", PRODUCT),
    ("$W$ is given by its inverse.", PRODUCT),
    ("We write $W$ for the inverse of the weight matrix.", PRODUCT),
    ("We use the transpose of $W$.", PRODUCT),
    ("We use $W^{-1}$ here.", PRODUCT),
    (r"We use $W^\top$.", PRODUCT),
    ("The matrix $W$ stands to the left of $X$.", PRODUCT),
    ("The matrix $W$ has $W^2$ entries.", PRODUCT),
    ("The diagonal of $W$ is one.", PRODUCT),
    ("$W$ is diagonal.", PRODUCT),
    ("$W$ is sparse.", PRODUCT),
    ("$W$ is given by $V$.", PRODUCT),
    ("We have $W = 2W$.", PRODUCT),
    ("All products are element-wise.", PRODUCT),
    ("The product is element-wise.", PRODUCT),
    ("This is an element-wise product.", PRODUCT),
    ("This is the Hadamard product.", PRODUCT),
    ("The product is the Hadamard product.", PRODUCT),
    ("Products are taken entry-wise.", PRODUCT),
    ("The product is from the right.", PRODUCT),
    ("The columns of $X$ are the tokens.", PRODUCT),
    ("Vectors are row vectors, and matrices act from the left.", PRODUCT),
    ("The layer is applied two times.", PRODUCT),
    ("This layer is applied once more.", PRODUCT),
    ("The output is the sum of this and the input.", PRODUCT),
    ("A residual connection is used around this.", PRODUCT),
    ("There is a residual connection around this layer.", PRODUCT),
    ("A bias is used as well.", PRODUCT),
    ("The layer has a bias.", PRODUCT),
    ("As usual there is a bias.", PRODUCT),
    ("A nonlinearity follows.", PRODUCT),
    (r"The activation is $\tanh$.", PRODUCT),
    ("It goes through a ReLU.", PRODUCT),
    ("The result is the ReLU of this.", PRODUCT),
    ("Layer normalization is applied to the result.", PRODUCT),
    ("Normalization is applied to the input.", PRODUCT),
    ("Dropout is applied to the result.", PRODUCT),
    ("All computation is in integers.", PRODUCT),
    ("The weights are stored in int8.", PRODUCT),
    ("The activation has a slope of $0.1$ for small inputs.", RECTIFIED),
    ("The activation is the Leaky one.", RECTIFIED),
    ("The ReLU is that of PReLU.", RECTIFIED),
    ("Here ReLU denotes Softplus.", RECTIFIED),
    ("ReLU means GELU.", RECTIFIED),
    ("ReLU stands for the Swish function.", RECTIFIED),
    ("The ReLU is Leaky.", RECTIFIED),
    ("The ReLU is applied to the norm.", RECTIFIED),
    ("LN is over tokens.", NORM),
    ("LN is along the columns.", NORM),
    ("LN is over the batch.", NORM),
    ("LN is RMSNorm.", NORM),
    ("LN uses the standard deviation and not the mean.", NORM),
    ("LN has no mean.", NORM),
    ("LN does not use the mean.", NORM),
    ("LN has no gain and bias.", NORM),
    ("LN denotes RMSNorm.", NORM),
    ("The variance in LN is the unbiased one.", NORM),
    ("Addition is in the log semiring.", ADDED),
    ("The sum is the product.", ADDED),
    ("By addition we mean concatenation.", ADDED),
    ("Here $+$ denotes concatenation.", ADDED),
    ("Here $+$ means the maximum.", ADDED),
    ("The operator $+$ is the maximum.", ADDED),
    (r"The second term has the weight $\alpha$.", ADDED),
    ("The second term is optional.", ADDED),
    ("The second term is not used in practice.", ADDED),
    ("In practice, we do not use the second term.", ADDED),
    ("The second term has a negative sign.", ADDED),
    ("The sign of the second term is negative.", ADDED),
    (r"$\odot$ is the matrix product.", ENTRIES),
    (r"Here $\odot$ is the outer product.", ENTRIES),
    (r"Here $\odot$ denotes convolution.", ENTRIES),
]

# Written when readers had come to say which words they use, before these were looked at.
LATER: Final[list[tuple[str, str]]] = [
    ("Let $X$ be the centred inputs, and let every product be taken from the right.", PRODUCT),
    (r"A gate $g \in \mathbb{R}^{d}$ multiplies the output.", PRODUCT),
    ("The weights $W$ are shared with their transpose.", PRODUCT),
    ("Here $W$ is a product of two copies of itself.", PRODUCT),
    ("The matrix $X$ is first whitened.", PRODUCT),
    ("where $Z$ is the output of the layer before the activation, which we leave out.", PRODUCT),
    ("We use the same symbol for a matrix and its transpose.", PRODUCT),
    ("In the last layer the product is replaced by a convolution.", PRODUCT),
    ("We use $W$ for its exponential.", PRODUCT),
    ("The result is the average over heads.", PRODUCT),
    ("Each token is a column.", PRODUCT),
    ("The model uses a window of $128$ tokens.", SCORES),
    ("We use attention sinks.", SCORES),
    ("We introduce a learned bias per head.", SCORES),
    ("We propose to use cosine similarity.", SCORES),
    ("The scale is the usual one.", SCORES),
    ("As usual, scores are scaled by the root of the dimension.", SCORES),
    ("The softmax is the one of the first paper.", SCORES),
    ("The first key attends to all others.", SCORES),
    ("Attention is computed in blocks of $64$ keys.", SCORES),
    ("Note that the mask is omitted.", SCORES),
    ("The keys are the values.", SCORES),
    ("The logits are known up to a sign.", SCORES),
    ("Here $u$ is sorted.", SUM),
    ("Zero entries are counted as one.", SUM),
    ("The index $i$ starts at zero and skips one.", SUM),
    ("The sum is a mean.", SUM),
    ("Sums are over positive entries.", SUM),
    ("We use Kahan summation in steps of $2$.", SUM),
    ("The function LN is without a gain, and it acts twice.", NORM),
    ("LN stands for the layer normalization of the transpose.", NORM),
    ("LN is the group normalization.", NORM),
    ("Here LN uses the median.", NORM),
    ("The activation is the GELU.", RECTIFIED),
    ("ReLU is to be read as ELU.", RECTIFIED),
    ("The ReLU is shifted by $1$.", RECTIFIED),
    (r"By $\log$ we mean $\log_2$.", LOGARITHM),
    ("The logarithm is of the absolute value.", LOGARITHM),
    ("The norm is the Euclidean one of each half.", LENGTH),
    (r"Here $\odot$ has a factor of $2$.", ENTRIES),
    ("The product is in the frequency domain.", ENTRIES),
    ("Both terms have the same weight $1/2$.", ADDED),
    ("The plus is a minus in the decoder.", ADDED),
    ("The second term is zero in the first layer.", ADDED),
    ("All values are taken modulo $p$.", ADDED),
]
SILENT: Final[set[str]] = set()  # of these those that nobody hears

HARMLESS_LATER: Final = r"""
This section follows the presentation of the original paper.
The layer has two sublayers.
where $u$ is the query of a single token.
For a single head the equation is well known.
We now turn to the general case.
The idea is simple.
The cost of the layer is $O(n d^2)$.
Here $X$ are the token embeddings.
The matrix $W$ is a parameter of the model.
In this notation the layer is easy to state.
Let us look at an example.
Its gradient is given in the appendix.
where $c$ is a temperature.
The vector $v$ is a learnable bias.
where $H$ is the hidden state and $P$ are the logits.
The proof is in Appendix C.
This is the standard transformer block.
Most models use this form.
The output has the same shape as the input.
Note that $Z$ depends on the whole sequence.
where $\odot$ is the element-wise product.
where $\odot$ denotes the Hadamard product.
We use $c = 0.5$ in all experiments.
The softmax is taken over each row.
The vectors $u$ and $v$ have dimension $d$.
The block is repeated $L$ times.
All parameters are initialized at random.
The embeddings are learned.
""".strip().splitlines()
