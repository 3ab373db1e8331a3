"""What does routing say? Pure functions, arrays in and arrays out; no torch, no files.

The law of names
----------------
`*_share`        share of a whole, 0 to 1; several sum to 1
`*_profile`      shares over experts of an image or a class; rows sum to 1
`*_score`        one number, larger is more, 0 by chance
`*_entropy`      nats, 0 for certainty; `*_information` nats, 0 for independence
`*_divergence`   0 where two distributions agree; its docstring gives the unit
`*_matrix`       experts × experts (or tokens × tokens)
`effective_*`    a count, from 1 up
`*_interval`     the ends (low, high) of a confidence interval
Data come first, options after `*`; n images, T tokens, S slots, E experts, C classes. Functions
that give several numbers return a NamedTuple. What is undefined (a dead expert, an empty class,
one class) is NaN, with a `reason` where there is room for one; input that is not finite is a
ValueError that names it.

The catalogue
-------------
masses         expert_mass, choice_mass, hard_profile, image_profile, class_profile, class_counts,
               class_sums, image_weights, top_expert, row_shares
load           load_share, cv_squared, max_violation, min_violation, load_entropy, load_divergence,
               effective_experts, gini, dead_experts, cold_experts, unseen_probability,
               gate_entropies, hardness, balance_value, router_z_value, capacity_success,
               expert_success, processed_share
consistency    max_share, held_out_share, agreement, variance_explained, consistency_test,
               label_agreement, prediction_agreement, ami_score, contingency_table,
               table_information, expected_information, mean_margin_entropy, cramers_v,
               matched_agreement, class_order
information    information_budget, budget_ceiling, budget_bias, position_information,
               position_profile, tying_disagreement, shannon_entropy, jensen_shannon_divergence,
               kullback_leibler_divergence
specialization expert_class_share, expert_purity, overall_purity, expert_class_entropy,
               expert_divergence, expert_information, multinomial_divergence, lift,
               pointwise_information, log_lift, selectivity, expert_relevance
concentration  effective_tokens, cumulative_mass, entries_for_mass, mass_curve_area, token_totals,
               combine_share, token_effective_experts, uniform_divergence, mixing_matrix,
               slot_redundancy, slot_parameter_redundancy, slot_divergence, cosine_matrix,
               contribution_share, branch_share
paths          coactivation_counts, coactivation_matrix, coactivation_lift, coactivation_jaccard,
               coactivation_chance, transition_matrix, next_expert_accuracy, path_numbers,
               path_entropy, path_coverage, nominal_degree_log, routing_degree, rarefied_paths,
               router_saturation, weighted_jaccard, top_paths, spatial_coherence,
               shuffled_agreement
features       silhouette, neighbour_purity, feature_clusters, cluster_agreement, linear_cka,
               linear_probe, random_projection, probe_efficiency
nulls          permutation_test, null_draws, against_null, adjusted_score, max_statistic_test,
               labelling_count, every_labelling, shuffles, smallest_p, bootstrap_interval,
               resampled_rows, paired_bootstrap, wilson_interval, pooled_interval, mcnemar,
               benjamini_hochberg, split_halves, split_half_correlation, design_effect
"""

from routelab.metrics.arrays import (
    row_shares,
)
from routelab.metrics.association import (
    LabelAgreement,
    LibraryScores,
    PredictionAgreement,
    ami_score,
    contingency_table,
    cramers_v,
    expected_information,
    label_agreement,
    matched_agreement,
    mean_margin_entropy,
    prediction_agreement,
    table_information,
)
from routelab.metrics.capacity import (
    Success,
    capacity_success,
    expert_success,
    processed_share,
)
from routelab.metrics.clusters import (
    ClusterAgreement,
    NeighbourPurity,
    cluster_agreement,
    feature_clusters,
    linear_cka,
    neighbour_purity,
    silhouette,
)
from routelab.metrics.coactivation import (
    coactivation_chance,
    coactivation_counts,
    coactivation_jaccard,
    coactivation_lift,
    coactivation_matrix,
)
from routelab.metrics.comparisons import (
    McNemar,
    benjamini_hochberg,
    mcnemar,
)
from routelab.metrics.concentration import (
    combine_share,
    cumulative_mass,
    effective_tokens,
    entries_for_mass,
    mass_curve_area,
    mixing_matrix,
    token_effective_experts,
    token_totals,
    uniform_divergence,
)
from routelab.metrics.consistency import (
    Agreement,
    MaxShare,
    VarianceExplained,
    agreement,
    max_share,
    variance_explained,
)
from routelab.metrics.consistency_null import (
    ConsistencyTest,
    consistency_test,
)
from routelab.metrics.contribution import (
    Contribution,
    branch_share,
    contribution_share,
)
from routelab.metrics.entropy import (
    jensen_shannon_divergence,
    kullback_leibler_divergence,
    shannon_entropy,
)
from routelab.metrics.gates import (
    GateEntropies,
    Hardness,
    balance_value,
    gate_entropies,
    hardness,
    router_z_value,
)
from routelab.metrics.halves import (
    Halves,
    HeldOutShare,
    class_order,
    held_out_share,
    split_half_correlation,
    split_halves,
)
from routelab.metrics.information import (
    InformationBudget,
    budget_bias,
    budget_ceiling,
    information_budget,
    position_information,
    position_profile,
    tying_disagreement,
)
from routelab.metrics.intervals import (
    Interval,
    bootstrap_interval,
    design_effect,
    paired_bootstrap,
    pooled_interval,
    resampled_rows,
    wilson_interval,
)
from routelab.metrics.labellings import (
    every_labelling,
    labelling_count,
    shuffles,
    smallest_p,
)
from routelab.metrics.load import (
    cold_experts,
    cv_squared,
    dead_experts,
    effective_experts,
    gini,
    load_divergence,
    load_entropy,
    load_share,
    max_violation,
    min_violation,
    unseen_probability,
)
from routelab.metrics.nulls import (
    NullDraws,
    Permutation,
    adjusted_score,
    against_null,
    max_statistic_test,
    null_draws,
    permutation_test,
)
from routelab.metrics.paths import (
    RoutingDegree,
    Saturation,
    next_expert_accuracy,
    nominal_degree_log,
    path_coverage,
    path_entropy,
    path_numbers,
    rarefied_paths,
    router_saturation,
    routing_degree,
    top_paths,
    transition_matrix,
    weighted_jaccard,
)
from routelab.metrics.probes import (
    Probe,
    linear_probe,
    probe_efficiency,
    random_projection,
)
from routelab.metrics.profiles import (
    choice_mass,
    class_counts,
    class_profile,
    class_sums,
    expert_mass,
    hard_profile,
    image_profile,
    image_weights,
    top_expert,
)
from routelab.metrics.redundancy import (
    Redundancy,
    cosine_matrix,
    slot_divergence,
    slot_parameter_redundancy,
    slot_redundancy,
)
from routelab.metrics.spatial import (
    Coherence,
    shuffled_agreement,
    spatial_coherence,
)
from routelab.metrics.specialization import (
    Relevance,
    expert_class_entropy,
    expert_class_share,
    expert_divergence,
    expert_information,
    expert_purity,
    expert_relevance,
    lift,
    log_lift,
    multinomial_divergence,
    overall_purity,
    pointwise_information,
    selectivity,
)

__all__ = [
    "Agreement",
    "ClusterAgreement",
    "Coherence",
    "ConsistencyTest",
    "Contribution",
    "GateEntropies",
    "Halves",
    "Hardness",
    "HeldOutShare",
    "InformationBudget",
    "Interval",
    "LabelAgreement",
    "LibraryScores",
    "MaxShare",
    "McNemar",
    "NeighbourPurity",
    "NullDraws",
    "Permutation",
    "PredictionAgreement",
    "Probe",
    "Redundancy",
    "Relevance",
    "RoutingDegree",
    "Saturation",
    "Success",
    "VarianceExplained",
    "adjusted_score",
    "against_null",
    "agreement",
    "ami_score",
    "balance_value",
    "benjamini_hochberg",
    "bootstrap_interval",
    "branch_share",
    "budget_bias",
    "budget_ceiling",
    "capacity_success",
    "choice_mass",
    "class_counts",
    "class_order",
    "class_profile",
    "class_sums",
    "cluster_agreement",
    "coactivation_chance",
    "coactivation_counts",
    "coactivation_jaccard",
    "coactivation_lift",
    "coactivation_matrix",
    "cold_experts",
    "combine_share",
    "consistency_test",
    "contingency_table",
    "contribution_share",
    "cosine_matrix",
    "cramers_v",
    "cumulative_mass",
    "cv_squared",
    "dead_experts",
    "design_effect",
    "effective_experts",
    "effective_tokens",
    "entries_for_mass",
    "every_labelling",
    "expected_information",
    "expert_class_entropy",
    "expert_class_share",
    "expert_divergence",
    "expert_information",
    "expert_mass",
    "expert_purity",
    "expert_relevance",
    "expert_success",
    "feature_clusters",
    "gate_entropies",
    "gini",
    "hard_profile",
    "hardness",
    "held_out_share",
    "image_profile",
    "image_weights",
    "information_budget",
    "jensen_shannon_divergence",
    "kullback_leibler_divergence",
    "label_agreement",
    "labelling_count",
    "lift",
    "linear_cka",
    "linear_probe",
    "load_divergence",
    "load_entropy",
    "load_share",
    "log_lift",
    "mass_curve_area",
    "matched_agreement",
    "max_share",
    "max_statistic_test",
    "max_violation",
    "mcnemar",
    "mean_margin_entropy",
    "min_violation",
    "mixing_matrix",
    "multinomial_divergence",
    "neighbour_purity",
    "next_expert_accuracy",
    "nominal_degree_log",
    "null_draws",
    "overall_purity",
    "paired_bootstrap",
    "path_coverage",
    "path_entropy",
    "path_numbers",
    "permutation_test",
    "pointwise_information",
    "pooled_interval",
    "position_information",
    "position_profile",
    "prediction_agreement",
    "probe_efficiency",
    "processed_share",
    "random_projection",
    "rarefied_paths",
    "resampled_rows",
    "router_saturation",
    "router_z_value",
    "routing_degree",
    "row_shares",
    "selectivity",
    "shannon_entropy",
    "shuffled_agreement",
    "shuffles",
    "silhouette",
    "slot_divergence",
    "slot_parameter_redundancy",
    "slot_redundancy",
    "smallest_p",
    "spatial_coherence",
    "split_half_correlation",
    "split_halves",
    "table_information",
    "token_effective_experts",
    "token_totals",
    "top_expert",
    "top_paths",
    "transition_matrix",
    "tying_disagreement",
    "uniform_divergence",
    "unseen_probability",
    "variance_explained",
    "weighted_jaccard",
    "wilson_interval",
]
