"""How much do two labellings of the same images share? Class and expert, two layers, two seeds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    fowlkes_mallows_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import expected_mutual_information

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, masses, ratio, same_length
from routelab.metrics.class_statistics import mass_information
from routelab.metrics.entropy import shannon_entropy

NAN = float("nan")


def contingency_table(
    labels: ArrayLike,
    assignment: ArrayLike,
    *,
    classes: int | None = None,
    experts: int | None = None,
) -> FloatArray:
    """Counts of images `(C, E)` by class and expert.

    >>> contingency_table([0, 0, 1, 1], [0, 0, 1, 0])
    array([[2., 0.],
           [1., 1.]])
    """
    rows, columns = classes_of(labels), classes_of(assignment, name="assignment")
    same_length(rows, columns, names=("labels", "assignment"))
    height = max(classes or 0, int(rows.max(initial=-1)) + 1)
    width = max(experts or 0, int(columns.max(initial=-1)) + 1)
    flat = np.bincount(rows * width + columns, minlength=height * width)
    return flat.reshape(height, width).astype(np.float64)


def table_information(table: ArrayLike) -> float:
    """Mutual information of rows and columns of a table of mass `(C, E)`, in nats (CC4).

    Works on counts and on soft mass; 0 for independence, at most min(ln C, ln E).
    """
    joint = masses(table, name="table", ndim=2)
    return float(mass_information(joint)) if joint.sum() > 0 else NAN


def expected_information(table: ArrayLike) -> float:
    """Mean information of shuffled labels with the table's margins, in nats; exact, for counts.

    Raises
    ------
    ValueError
        For a table that holds fractions: its null is a permutation, not this formula.
    """
    counts = _counts(table)
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    contingency = counts[rows > 0][:, columns > 0]
    if contingency.size == 0:
        return NAN
    return float(expected_mutual_information(contingency, int(counts.sum())))


def mean_margin_entropy(table: ArrayLike) -> float:
    """(H(rows) + H(columns)) / 2 in nats: what NMI and AMI divide by."""
    return sum(_margin_entropies(masses(table, name="table", ndim=2))) / 2


def _margin_entropies(table: FloatArray) -> tuple[float, float]:
    """H(rows) and H(columns) in nats; NaN for an empty table."""
    if table.sum() == 0:
        return NAN, NAN
    joint = table / table.sum()
    return float(shannon_entropy(joint.sum(axis=1))), float(shannon_entropy(joint.sum(axis=0)))


class LibraryScores(NamedTuple):
    """The values that scikit-learn gives, also where RouteLab calls them undefined."""

    nmi: float
    ami: float
    ari: float
    homogeneity: float
    completeness: float
    v_measure: float
    fowlkes_mallows: float


class LabelAgreement(NamedTuple):
    """Mutual information (nats) of class and expert, and what is made of it.

    `nmi` inflates with the number of groups; `ami` and `ari` are 0 by chance. `homogeneity` asks
    whether an expert sees one class (it is I/H(class), Theil's U of class given expert), and
    `completeness` whether a class goes to one expert (I/H(expert)). `of_smaller` is the information
    over the smaller entropy, 1 where one labelling settles the other. `reason` says why numbers are
    NaN; scikit-learn gives 0 or 1 there, kept in `library`.
    """

    information: float
    nmi: float
    ami: float
    ari: float
    homogeneity: float
    completeness: float
    v_measure: float
    fowlkes_mallows: float
    of_smaller: float
    library: LibraryScores
    reason: str


def label_agreement(labels: ArrayLike, assignment: ArrayLike) -> LabelAgreement:
    """The mutual-information family for one label and one expert an image (CC4).

    Images only: tokens that carry their image's label would count the same evidence many times.

    >>> round(label_agreement([0, 0, 1, 1], [1, 1, 0, 0]).ami, 6)  # names of experts do not matter
    1.0
    >>> label_agreement([0, 0, 1, 1], [0, 0, 0, 0]).reason
    'degenerate: one expert is used'
    """
    rows, columns = classes_of(labels), classes_of(assignment, name="assignment")
    table = contingency_table(rows, columns)
    reason = degenerate(rows, columns)
    library = _library_scores(rows, columns)
    if reason:
        return LabelAgreement(*(NAN,) * 9, library, reason)
    information = table_information(table)
    of_rows, of_columns = _margin_entropies(table)
    return LabelAgreement(
        information,
        library.nmi,
        ami_score(rows, columns),
        library.ari,
        library.homogeneity,
        library.completeness,
        library.v_measure,
        library.fowlkes_mallows,
        information / min(of_rows, of_columns),
        library,
        "",
    )


def _library_scores(rows: IntArray, columns: IntArray) -> LibraryScores:
    """scikit-learn's numbers; NaN for no image."""
    if not len(rows):
        return LibraryScores(*(NAN,) * 7)
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(rows, columns)
    return LibraryScores(
        nmi=float(normalized_mutual_info_score(rows, columns)),
        ami=float(adjusted_mutual_info_score(rows, columns)),
        ari=float(adjusted_rand_score(rows, columns)),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
        v_measure=float(v_measure),
        fowlkes_mallows=float(fowlkes_mallows_score(rows, columns)),
    )


def ami_score(labels: ArrayLike, assignment: ArrayLike) -> float:
    """Adjusted mutual information of two labellings: 0 by chance, 1 equal; NaN if degenerate (CC4).

    AMI = (I − E[I]) / (mean(H) − E[I]), the arithmetic mean of both entropies.
    """
    rows, columns = classes_of(labels), classes_of(assignment, name="assignment")
    table = contingency_table(rows, columns)
    if degenerate(rows, columns):
        return NAN
    if max(table.sum(axis=0).max(), table.sum(axis=1).max()) == 1:
        return 0.0  # every image has groups of its own: the formula is 0/0, and chance explains all
    expected = expected_information(table)
    room = mean_margin_entropy(table) - expected
    return float((table_information(table) - expected) / room)


class PredictionAgreement(NamedTuple):
    """AMI of experts with the true class and with the predicted one, over all images and the wrong.

    `wrong` counts misclassified images. A number is NaN where it is degenerate.
    """

    with_label: float
    with_prediction: float
    wrong_with_label: float
    wrong_with_prediction: float
    wrong: int


def prediction_agreement(
    labels: ArrayLike, predictions: ArrayLike, assignment: ArrayLike
) -> PredictionAgreement:
    """Does routing follow what is true, or what the model will say (CC8)?

    The wrong images tell: there the two differ.

    >>> found = prediction_agreement([0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 1, 0])
    >>> round(found.with_label, 6), round(found.with_prediction, 6), found.wrong
    (0.0, 1.0, 1)
    """
    truth, said = classes_of(labels), classes_of(predictions, name="predictions")
    same_length(truth, said, names=("labels", "predictions"))
    chosen = classes_of(assignment, name="assignment")
    same_length(truth, chosen, names=("labels", "assignment"))
    wrong = truth != said
    return PredictionAgreement(
        ami_score(truth, chosen),
        ami_score(said, chosen),
        ami_score(truth[wrong], chosen[wrong]),
        ami_score(said[wrong], chosen[wrong]),
        int(wrong.sum()),
    )


def degenerate(labels: ArrayLike, assignment: ArrayLike) -> str:
    """Why two labellings cannot be compared; empty if they can."""
    rows, columns = np.asarray(labels), np.asarray(assignment)
    if not len(rows):
        return "degenerate: no image"
    if np.unique(rows).size < 2:
        return "degenerate: one class"
    if np.unique(columns).size < 2:
        return "degenerate: one expert is used"
    return ""


def cramers_v(table: ArrayLike, *, corrected: bool = True) -> float:
    """Cramér's V of a table of counts, 0 to 1, with Bergsma's correction for its bias (CC5).

    V² = χ² / (n · min(r−1, q−1)) over non-empty rows and columns; corrected:
    φ̃² = max(0, χ²/n − (r−1)(q−1)/(n−1)), r̃ = r − (r−1)²/(n−1) and likewise q̃. NaN with fewer than
    two non-empty rows or columns; corrected, also where every image has a row or column of its own.
    """
    counts = _counts(table)
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    (rows, columns), n = counts.shape, int(counts.sum())
    if min(rows, columns) < 2:
        return NAN
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    phi = ((counts - expected) ** 2 / expected).sum() / n
    if not corrected:
        return float(np.sqrt(phi / min(rows - 1, columns - 1)))
    phi = max(0.0, phi - (rows - 1) * (columns - 1) / (n - 1))
    height, width = rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)
    return float(np.sqrt(ratio(phi, min(height - 1, width - 1))))


def matched_agreement(first: ArrayLike, second: ArrayLike) -> float:
    """Share of images with the same expert once experts are matched one to one (P7).

    Expert numbers of two seeds are arbitrary; the Hungarian method pairs those that share most.

    >>> matched_agreement([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    table = contingency_table(first, second)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(ratio(table[rows, columns].sum(), table.sum()))


def _counts(table: ArrayLike) -> np.ndarray:
    """The table as whole numbers."""
    values = masses(table, name="table", ndim=2)
    counts = np.rint(values).astype(np.int64)
    if not np.array_equal(counts, values):
        raise ValueError(
            "table holds fractions, and this null is for counts; use permutation_test for soft mass"
        )
    return counts
