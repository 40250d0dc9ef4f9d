"""The recomputations by name: what a claim's `formula` may be."""

from collections.abc import Callable

from lab.cost.claims import attention, caches, measured, models, printed_sums
from lab.cost.claims.printed import Interval

FORMULAS: dict[str, Callable[..., list[Interval]]] = {
    formula.__name__: formula
    for formula in (
        *(attention.score_tensor, attention.score_elements, attention.pairs_per_head, attention.causal_share),
        *(
            attention.flops_coefficient,
            attention.multiply_adds,
            attention.multiply_adds_per_square,
            attention.head_flops,
            attention.layer_flops,
        ),
        *(attention.token_flops, attention.output_tensor, attention.live_peak, attention.naive_sum),
        attention.live_score_tensors,
        *(attention.score_passes, attention.mask_share_of_traffic, attention.cache_of_layer),
        *(attention.logits_tensor, attention.scores_over_logits, attention.scores_pass_logits),
        attention.live_scores_pass_logits,
        *(attention.resolution, attention.idle_multiprocessors),
        *(models.growth, models.latency_factors, models.window_growth, models.attention_share),
        *(models.attention_flops_of_model, models.attention_and_ffn, models.ffn_flops_of_layer),
        *(models.attention_over_ffn, models.attention_passes_ffn, models.attention_is_half),
        models.shape_numbers,
        *(caches.cache, caches.cache_step, caches.cached_tensors, caches.weights, caches.cache_over_weights),
        *(caches.crossover_batch, caches.first_batch_beyond, caches.sequences_that_fit),
        *(caches.query_heads_per_kv_head, caches.gqa_saving_over_groups, caches.card_memory),
        *(caches.card_capability, caches.flash_speed_ups),
        *(measured.peak, measured.peak_multiples, measured.peak_ratio, measured.peak_over_card),
        *(measured.error_ratio, measured.time_ratio, measured.fitted_exponents, measured.throughput),
        *(measured.throughput_steps, measured.share_of_matmul_rate, measured.copy_seconds),
        *(measured.moved_by_passes, measured.time_over_copying, measured.copying_over_time),
        *(measured.rest_explained, measured.mask_surcharge, measured.mask_surcharge_range),
        *(measured.causal_ratios, measured.speed_up, measured.time_saved, measured.logits_share_of_peak),
        *(measured.decode_row_bandwidth, measured.decode_bandwidth, measured.bandwidth_range),
        *(measured.bandwidth_over_copy, measured.decode_exponents, measured.backends_unavailable),
        *(measured.backends_asked, measured.implementations_measured),
        *(printed_sums.multiplied, printed_sums.ratio_of_printed, printed_sums.share_of_printed),
        *(printed_sums.sequences_by_printed, printed_sums.start_up_share),
    )
}
