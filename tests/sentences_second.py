"""Sentences beside formulas that a second reviewer wrote against the reader: those that change a formula, each with the
formula that it changes, and those that change none.
"""

from __future__ import annotations

from typing import Final

from tests.sentences_beside import ADDED, ENTRIES, LARGEST, LENGTH, LOGARITHM, NORM, PRODUCT, RECTIFIED, SCORES, SUM

SCALED: Final = r"Z = \mathrm{softmax}(X Y^\top / \sqrt{d}) X"

SECOND: Final[list[tuple[str, str]]] = [
    ("The queries are the keys of the previous layer.", SCORES),
    ("Each query is its own key.", SCORES),
    ("The softmax has a learned temperature.", SCORES),
    ("Each query also attends to a learned key.", SCORES),
    ("The attention weights are a product of both softmaxes.", SCORES),
    ("Attention is over the tokens in the same document.", SCORES),
    ("Each token attends to itself and to the tokens of its block.", SCORES),
    ("The softmax is taken over each column.", SCORES),
    ("Here the softmax is over the queries.", SCORES),
    ("Here the softmax is over both axes.", SCORES),
    ("Every query reads the first half of the keys.", SCORES),
    ("The weight of a token on itself is $0$.", SCORES),
    ("The diagonal of the scores is $-\\infty$.", SCORES),
    ("Each head has its own softmax with temperature $\\tau$.", SCORES),
    ("The logits include a relative position bias.", SCORES),
    ("The relative position enters through the scores.", SCORES),
    ("Positions are represented by rotations of queries and keys.", SCORES),
    ("The rows of $X$ are rotated by their position.", SCORES),
    ("Here $W$ is the product of two matrices and $X$.", PRODUCT),
    ("The output is the sum of $Z$ and the input.", PRODUCT),
    ("There is a residual connection around this layer.", PRODUCT),
    ("A residual connection is employed around each of the two sub-layers.", PRODUCT),
    ("The result is known to be the transpose.", PRODUCT),
    ("Each entry is the maximum over the batch.", PRODUCT),
    ("$W$ is shared with its transpose.", PRODUCT),
    ("$X$ is the residual stream in units of its norm.", PRODUCT),
    ("We use the identity for $W$ in the first layer.", PRODUCT),
    ("Here the product is between $W$ and the rows in turn.", PRODUCT),
    ("The layer is applied $N$ times.", PRODUCT),
    ("This step is iterated until convergence.", PRODUCT),
    ("The layer is followed by another one with the same form.", PRODUCT),
    ("Products are computed in the log semiring.", PRODUCT),
    ("The product of matrices is the Kronecker one.", PRODUCT),
    ("Matrix multiplication is the one of quaternions.", PRODUCT),
    ("Complex numbers are stored as pairs of entries, and products are complex.", PRODUCT),
    ("$W$ is complex and we take the real part.", PRODUCT),
    ("$W$ is the exponential of a matrix.", PRODUCT),
    ("$W$ is $W_1 W_2$.", PRODUCT),
    ("The norm is a sum over all vectors.", LENGTH),
    ("The norm is over the whole batch.", LENGTH),
    ("Here $u$ is a unit vector times its length squared.", LENGTH),
    ("The length of a vector is the number of its entries.", LENGTH),
    ("LN has parameters that depend on the time step.", NORM),
    ("LN is RMS normalization.", NORM),
    ("LN uses statistics of the training set.", NORM),
    ("LN stands for a linear network.", NORM),
    ("Layer normalization is without variance.", NORM),
    ("ReLU is the leaky one.", RECTIFIED),
    ("ReLU is the square of a ReLU.", RECTIFIED),
    ("The ReLU is a smooth approximation, as usual.", RECTIFIED),
    ("The logarithm is the base-two one.", LOGARITHM),
    ("The logarithm is of $1 + X$.", LOGARITHM),
    ("log is the matrix logarithm.", LOGARITHM),
    ("The logarithm is a matrix function.", LOGARITHM),
    ("The sum is over pairs.", SUM),
    ("The sum is a product over all $i$.", SUM),
    ("The sum has one term for each pair.", SUM),
    ("The last term of the sum is twice as large.", SUM),
    ("The maximum is over all tokens in the batch.", LARGEST),
    ("The maximum is of the absolute values.", LARGEST),
    ("The sum is element-wise and modulo two.", ADDED),
    ("The sum is direct.", ADDED),
    ("Here $+$ denotes concatenation.", ADDED),
    ("The plus sign is a concatenation.", ADDED),
    ("The sum of the two is a weighted one.", ADDED),
    ("The two terms are weighted by a learned gate.", ADDED),
    ("The element-wise product is the matrix product.", ENTRIES),
    ("$\\odot$ is a convolution.", ENTRIES),
    ("The Hadamard product is with the transpose.", ENTRIES),
    ("$Y$ is the softmax of another matrix.", ENTRIES),
    ("$Y$ is a gate, and gates are sigmoids.", ENTRIES),
    ("$Y$ has the same value in every row.", ENTRIES),
    ("X W is the matrix product; its entries, however, are the maximum over the products.", PRODUCT),
    ("The key for each query is the query itself.", SCORES),
    ("The values are $Y$ and the keys are $X$.", SCORES),
    ("Each value is weighted by its key.", SCORES),
    ("The weights are also dependent on distance.", SCORES),
    ("Similarity is distance.", SCORES),
    ("The similarity is the cosine of the angle.", SCORES),
    ("In training, the mask is as usual.", SCORES),
    ("In the decoder, the usual mask is understood.", SCORES),
    ("As usual in language modeling, attention is causal.", SCORES),
    ("Attention in the decoder is masked.", SCALED),
    ("Each token attends only to itself and the tokens before it.", SCALED),
    ("As in the standard decoder, $Z$ depends only on tokens before.", SCALED),
    ("The softmax temperature is a learned parameter.", SCALED),
    ("The temperature is learned for each head.", SCALED),
    ("The scores also depend on the distance between tokens.", SCALED),
    ("A position encoding enters the scores.", SCALED),
    ("A position bias is learned for each pair.", SCALED),
    ("The key of each token is its query.", SCALED),
    ("The keys are queries of the other sequence.", SCALED),
    ("Each row of $X$ is a mean over its neighbours.", PRODUCT),
    ("$X$ is the output of the softmax.", PRODUCT),
    ("$X$ is the exponential of the input.", PRODUCT),
    ("$X$ denotes the gradient of the input.", PRODUCT),
    ("Here $X$ is the input and its bias.", PRODUCT),
    ("Here $X W$ is a convolution.", PRODUCT),
    ("A product with $W$ is a convolution with kernel $W$.", PRODUCT),
    ("$X W$ is the exponential map.", PRODUCT),
    ("$X W$ is the element-wise product.", PRODUCT),
    ("$X W$ is the Hadamard product.", PRODUCT),
    ("The product is element-wise.", PRODUCT),
    ("The product of $X$ and $W$ is componentwise.", PRODUCT),
    ("Products are understood componentwise.", PRODUCT),
    ("All products are to be understood pointwise.", PRODUCT),
    ("The matrix $W$ is symmetric, with the lower half zero.", PRODUCT),
    ("$W$ is the transpose of the learned matrix.", PRODUCT),
    ("$W$ is an inverse.", PRODUCT),
    ("$Z$ is the sum over heads.", PRODUCT),
    ("$Z$ is the mean over samples.", PRODUCT),
    ("The output is a weighted mean of $Z$ and $X$.", PRODUCT),
    ("The output of the layer is $Z$ and the bias.", PRODUCT),
    ("The expression is then exponentiated.", PRODUCT),
    ("The result enters an exponential.", PRODUCT),
    ("The output is the maximum of both heads.", PRODUCT),
    ("The equation holds in the limit.", PRODUCT),
    ("The equation holds only in expectation.", PRODUCT),
    ("The equation is in expectation.", PRODUCT),
    ("The formula is true up to terms of higher order.", PRODUCT),
    ("The gradient with respect to $W$ is", PRODUCT),
    ("The derivative of the loss is", PRODUCT),
    ("The inverse is given by", PRODUCT),
    ("The transpose of the output is", PRODUCT),
    ("The logarithm of the output is", PRODUCT),
    ("The square root of the output is", PRODUCT),
    ("The maximum over this is", PRODUCT),
    ("The change of $Z$ in one step is", PRODUCT),
    ("The update of $Z$ is", PRODUCT),
    ("We add to $Z$ the term", PRODUCT),
    ("The second term of $Z$ is", PRODUCT),
    ("The first row of $Z$ is", PRODUCT),
    ("The first half of $Z$ is", PRODUCT),
    ("The difference between both outputs is", PRODUCT),
    ("The norm of the output is", PRODUCT),
    ("In the backward pass, we have", PRODUCT),
    ("For the last layer we get", PRODUCT),
    ("In the first layer only", PRODUCT),
    ("For one of the heads", PRODUCT),
    ("The counterexample is", PRODUCT),
    ("A common mistake in implementations is", PRODUCT),
    ("A weak variant is", PRODUCT),
    ("The problem with the following is clear:", PRODUCT),
    ("The bounded version is", PRODUCT),
    ("An upper bound is", PRODUCT),
    ("It would be a mistake to write", PRODUCT),
    ("One might think that", PRODUCT),
    ("One could believe that", PRODUCT),
    ("Were it so, we would have", PRODUCT),
    ("It is well known that this would be", PRODUCT),
    ("We believed that", PRODUCT),
    ("Let us assume that", PRODUCT),
    ("The sum is over $i$ and its neighbours.", SUM),
    ("The sum is over its first half.", SUM),
    ("Each $u_i$ is a sum.", SUM),
    ("Each $u_i$ is a sum of squares.", SUM),
    ("Each term has its own weight.", SUM),
    ("The terms are weighted.", SUM),
    ("The sum is weighted.", SUM),
    ("The sum is over different values.", SUM),
    ("The sum is over all distinct entries.", SUM),
    ("The maximum is differentiable.", LARGEST),
    ("The maximum is a smooth one.", LARGEST),
    ("The maximum is stochastic.", LARGEST),
    ("The ReLU is a learned function.", RECTIFIED),
    ("The ReLU is applied to the norm of each row.", RECTIFIED),
    ("The ReLU is applied to each row's norm.", RECTIFIED),
    ("The ReLU has a learned bias.", RECTIFIED),
    ("The ReLU includes a learned bias.", RECTIFIED),
    ("LN is the norm of each row.", NORM),
    ("LN stands for length normalization.", NORM),
    ("LN is a learned normalization.", NORM),
    ("LN is the normalization by length.", NORM),
    ("The normalization is by the norm.", NORM),
    ("LN is without bias and mean.", NORM),
    ("The logarithm is a learned function.", LOGARITHM),
    ("The logarithm is a symbol for a learned map.", LOGARITHM),
    ("Logarithms are of magnitudes.", LOGARITHM),
    ("The norm depends on a learned metric.", LENGTH),
    ("The norm is the one of the space.", LENGTH),
    ("The norm is given by a matrix.", LENGTH),
    ("The norm is the standard deviation.", LENGTH),
    ("The norm is the variance.", LENGTH),
]

HARMLESS_SECOND: Final = r"""
The keys and the values are computed once and stored in a cache.
The matrix W is stored in bfloat16.
We thank the anonymous reviewers for their comments.
where $X$ is the input matrix whose rows are token embeddings.
This reduces the memory footprint considerably.
The computation can be parallelized across heads.
Here, each row corresponds to one token.
As shown in Figure 2, the outputs are combined.
We refer to this operation as mixing.
Our approach is inspired by Vaswani et al. (2017).
The projection matrix $W$ is randomly initialized with variance $1/d$.
In what follows we drop the layer index.
The matrices $X$ and $Y$ share the same shape.
We found this variant to be more stable.
The parameter count is $d^2$.
This mechanism lets the model look at different representation subspaces.
We therefore obtain the simple rule
Formally, the layer is defined as
In other words,
Equivalently, in vector notation,
This is known as the value projection.
The map is linear in $X$.
The function is Lipschitz.
We assume that the reader is familiar with transformers.
It has been shown that this works well in practice.
The token representations are then updated.
Finally, the outputs are collected in a matrix.
The name stands for layer normalization.
The computation is memory-bound on modern hardware.
Following standard practice, we write vectors as rows.
The resulting matrix has $n$ rows.
Both are learned end to end by gradient descent.
Recall the definition of attention.
We start with the basic building block.
For clarity, we omit the bias.
Empirically, larger values of $d$ work better.
The architecture consists of $L$ identical layers.
Each of these has its own parameters.
Consider a sequence of tokens.
Denote the output by $Z$.
""".strip().splitlines()
