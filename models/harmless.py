"""Keys of a config that change neither the shape of a tensor nor how many bytes a token moves."""

from __future__ import annotations

import re

_LISTED = """
    architectures auto_map bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id
    torch_dtype dtype transformers_version use_cache initializer_range hidden_act hidden_activation activation_function
    mlp_hidden_act mamba_hidden_act dense_act_fn ffn_act_fn act_fn hidden_dropout hidden_dropout_prob classifier_dropout
    rope_theta rope_scaling rope_parameters rope_interleave rope_type rotary_dim rotary_emb_base partial_rotary_factor
    rope_ratio original_max_position_embeddings initial_context_length max_length min_length max_new_tokens
    router_aux_loss_coef router_z_loss_coef router_jitter_noise output_router_logits aux_loss_alpha seq_aux
    norm_topk_prob norm_topk_probability routed_scaling_factor route_scale router_dtype moe_router_dtype
    router_ignore_padding_tokens n_group topk_group num_expert_group use_grouped_topk n_expert_groups n_limited_groups
    clip_qkv attn_logit_softcapping swiglu_limit pretraining_tp ep_size return_dict return_dict_in_generate
    task_specific_params problem_type id2label label2id output_attentions output_hidden_states output_scores
    temperature top_k top_p typical_p num_beams num_beam_groups num_return_sequences diversity_penalty
    repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
    begin_suppress_tokens suppress_tokens do_sample early_stopping forced_bos_token_id forced_eos_token_id
    remove_invalid_values chunk_size_feed_forward is_decoder use_bfloat16 torchscript tf_legacy_loss tokenizer_class
    prefix finetuning_task num_logits_to_keep logits_to_keep gradient_checkpointing unsloth_fixed unsloth_version
    use_mamba_kernels residual_in_fp32 rescale_prenorm_residual chunk_size mlx_version name_or_path license
    max_sequence_length cache_implementation embd_pdrop resid_pdrop emb_pdrop attn_pdrop
    ignore_index tie_encoder_decoder pruned_heads cross_attention_hidden_size add_cross_attention
"""
_NAMES = frozenset(_LISTED.split())
_PATTERN = re.compile(
    r".*(_token_id|_token_ids|_token_index|_dropout|_eps|_epsilon|_std|_pdrop|_loss_coef|_loss_weight|_init_range)$"
    r"|^(layernorm_\w+_attention|layernorm_mlp)_(alpha|beta)$|^(initializer|embedding_init)_\w+$"
)


def is_harmless(key: str) -> bool:
    """True when the value of ``key`` has no influence on counts, bytes, FLOP or KV of any family."""
    return key in _NAMES or _PATTERN.match(key) is not None
