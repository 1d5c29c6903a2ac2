"""Sentences beside formulas, written before the rule that reads them: those that change a formula, each with the
formula that it changes, and those in the manner of real papers that change none.
"""

from __future__ import annotations

from typing import Final

SHAPES: Final = (r"Let $X, Y \in \mathbb{R}^{n \times d}$, $W \in \mathbb{R}^{d \times d}$ and "
                 r"$u, v \in \mathbb{R}^{d}$. ")
SCORES, PRODUCT, NORM = r"Z = \mathrm{softmax}(X Y^\top) X", "Z = X W", r"Z = \mathrm{LN}(X)"
SUM, LARGEST, RECTIFIED = r"z = \sum_i u_i", r"z = \max_i u_i", r"Z = \mathrm{ReLU}(X)"
ENTRIES, LOGARITHM, LENGTH, ADDED = r"Z = X \odot Y", r"Z = \log(X)", r"z = u / \|u\|", "Z = X + Y"

HOSTILE: Final[list[tuple[str, str]]] = [
    # what is attended to, and what becomes of scores and weights
    ("Padding tokens receive no weight.", SCORES),
    ("Queries see the first key only.", SCORES),
    ("We subtract the row mean from the scores.", SCORES),
    ("Scores are perturbed by Gumbel noise.", SCORES),
    ("A bias that falls with distance is added to every score.", SCORES),
    ("The attention matrix is symmetrized.", SCORES),
    ("After the softmax the rows are renormalized to sum to two.", SCORES),
    ("The weights are detached and halved.", SCORES),
    ("Both operands of the dot product are l2-normalized.", SCORES),
    ("Attention dropout with rate $0.5$ stays on at inference.", SCORES),
    ("The logits are inverted in sign by convention.", SCORES),
    ("Softmax is followed by a second softmax.", SCORES),
    ("Keys further away than eight tokens are out of reach.", SCORES),
    ("The model never looks ahead.", SCORES),
    # the names
    ("We tie $W$ to the identity plus a low-rank update that is not shown.", PRODUCT),
    ("Throughout, $X$ is understood to be mean-free.", PRODUCT),
    ("$W$ acts through its pseudo-inverse.", PRODUCT),
    ("A column of ones is prepended to $X$.", PRODUCT),
    ("The columns of $W$ are orthonormalized on the fly.", PRODUCT),
    ("We abbreviate $W + W^\\top$ by $W$.", PRODUCT),
    ("In place of $X$ its exponential moving average enters.", PRODUCT),
    ("$W$ is pruned to its largest entries.", PRODUCT),
    ("$X$ is padded by zeros on the left.", PRODUCT),
    ("Rows of $X$ come in random order.", PRODUCT),
    ("The matrix $W$ is binarized during the forward pass.", PRODUCT),
    ("We fold a factor of $3$ into $W$.", PRODUCT),
    ("Every occurrence of $W$ is to be read as $W^{-1}$.", PRODUCT),
    ("Off-diagonal blocks of $W$ vanish.", PRODUCT),
    # the functions
    ("The rectifier lets a tenth of negative inputs through.", RECTIFIED),
    ("Our nonlinearity is flipped about the origin.", RECTIFIED),
    ("ReLU is evaluated on the negated input.", RECTIFIED),
    ("The activation is applied twice.", RECTIFIED),
    ("Layer normalization is computed over the tokens rather than the features.", NORM),
    ("LN is preceded by a projection that we leave implicit.", NORM),
    ("The gain of LN is fixed at two.", NORM),
    ("In LN the median takes the place of the mean.", NORM),
    ("We guard the logarithm by adding $10^{-2}$ to its argument.", LOGARITHM),
    ("Logarithms are natural for large inputs and linear for small ones.", LOGARITHM),
    ("$\\log$ is shifted so that it vanishes at $e$.", LOGARITHM),
    ("A negative logarithm counts as zero.", LOGARITHM),
    ("The norm is averaged over dimensions.", LENGTH),
    ("Lengths are measured by the largest coordinate.", LENGTH),
    ("A vector is divided by the cube of its norm.", LENGTH),
    ("The norm carries a small constant that we do not display.", LENGTH),
    # sums, maxima and letters
    ("The summation starts from the third term.", SUM),
    ("Summands with an even index enter negatively.", SUM),
    ("Each summand is raised to the fourth power.", SUM),
    ("The sum is geometric with ratio one half.", SUM),
    ("Repeated values are summed once.", SUM),
    ("$i$ ranges over the support of $v$.", SUM),
    ("The maximum ignores the last entry.", LARGEST),
    ("By maximum we mean the second largest value.", LARGEST),
    ("The maximum is soft with temperature one.", LARGEST),
    # operators, the equation, and what it makes
    ("The operator $\\odot$ wraps around at the borders.", ENTRIES),
    ("Entries with unequal signs contribute nothing to $\\odot$.", ENTRIES),
    ("Addition saturates at one.", ADDED),
    ("The sum of two matrices is their average.", ADDED),
    ("The residual branch is scaled down by a factor of ten.", ADDED),
    ("There is a misprint in the next line: a transpose is missing.", PRODUCT),
    ("What follows is stated for the transposed problem.", PRODUCT),
    ("The output $Z$ is flattened and sorted.", PRODUCT),
    ("Only odd rows of the result are returned.", PRODUCT),
    ("A final tanh is applied to $Z$ but suppressed here.", PRODUCT),
]

ALL: Final = r"""Let $X, Y \in \mathbb{R}^{n \times d}$, $A, B \in \mathbb{R}^{n \times n}$, 
$W \in \mathbb{R}^{d \times d}$ and $u, v \in \mathbb{R}^{d}$, with a scalar $c$.

SENTENCE

$$ Z = \mathrm{softmax}(X Y^\top / \sqrt{d}) X W $$

$$ H = \mathrm{ReLU}(\mathrm{LN}(X) W) \odot Y + c A B X $$

$$ P = \exp(A) - \log(B) $$

$$ w = \frac{u}{\|u\|} + v \max_i u_i $$
"""
HARMLESS: Final = r"""
An attention function maps a query and a set of key-value pairs to an output.
The output is computed as a weighted sum of the values.
We now describe the architecture in more detail.
The matrices $X$ and $Y$ hold the queries and the keys of one head.
Here $n$ is the sequence length and $d$ the model dimension.
The projection $W$ is learned jointly with the rest of the network.
The two most commonly used attention functions are additive attention and dot-product attention.
Dot-product attention is much faster and more space-efficient in practice.
We call this block the gated linear unit.
The query vector $u$ encodes the current token.
As a side effect, one can inspect what the heads have learned.
Our models are trained on eight accelerators for three days.
This is the formulation that is used in most open-source implementations.
The matrix $A$ collects pairwise similarities.
The matrices $A$ and $B$ depend on the input only through its length.
We report perplexity on the validation set.
The softmax makes the weights of each query positive.
The logarithm turns products into sums.
The exponential function grows quickly.
The ReLU was popularized by deep convolutional networks.
The constant $c$ is a hyperparameter that is tuned on held-out data.
For the base model we choose $d = 512$.
Computing $X Y^\top$ takes $O(n^2 d)$ operations.
The bottleneck of this computation is memory bandwidth.
Residual connections ease the optimization of deep networks.
Layer normalization was proposed to speed up the training of recurrent networks.
We refer the reader to Section 3 for the details.
See Appendix B for a derivation.
The notation follows earlier work on linear attention.
Vectors are written in lower case and matrices in upper case.
We use bold letters for vectors.
Throughout the paper, $u$ and $v$ are column vectors.
This equation is the core of the method.
The first equation is known as scaled dot-product attention.
In matrix form the layer reads
Putting everything together, we arrive at
The forward pass is given by the following equations.
where $Z$ is the output of the attention layer.
where $W$ is a trainable weight matrix and $c$ is a learnable scalar.
where $A$ and $B$ are square matrices.
Intuitively, tokens with similar embeddings receive similar outputs.
The rows of $X$ are the embeddings of the input tokens.
Each entry of $A$ measures the similarity of two tokens.
In the encoder, queries, keys and values come from the same place.
This property makes the model easy to parallelize.
In our implementation all matrices are stored in row-major order.
The gradient of the softmax is easy to compute.
The norm of $u$ can become large during training.
The maximum is attained at one of the entries.
The vector $w$ is the output of the last layer.
The hidden representation $H$ is passed to the classifier.
We experimented with several choices of $c$ and found little difference.
Unlike recurrent layers, this layer has no sequential dependence.
Similar results were obtained by other authors.
A detailed ablation is given in Table 4.
The computation of $P$ is dominated by the exponentials.
Both terms can be computed in parallel.
The model has 65 million parameters.
We thank the anonymous reviewers for their comments.
These weights determine how much each value contributes.
The embedding dimension equals the dimension of the values.
It remains to define the output of the layer.
""".strip().splitlines()
