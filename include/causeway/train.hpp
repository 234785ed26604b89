// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TRAIN_HPP
#define CAUSEWAY_TRAIN_HPP

// To train with a fixed set of peers: models, optimizers, codecs, text, communication policies, the trainer, checkpoints,
// and a network in memory. With causeway/tcp.hpp the peers are on different machines.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>

#include <causeway/io/archive.hpp>
#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/net/transport.hpp>

#include <causeway/data/batcher.hpp>
#include <causeway/data/bpe_table.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/data/bpe_trainer.hpp>
#include <causeway/data/data_files.hpp>
#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/data/text.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/data/unicode_classes.hpp>
#include <causeway/kernels/cblas_gemm.hpp>
#include <causeway/kernels/onednn_gemm.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/delayed_nesterov.hpp>
#include <causeway/optim/dion.hpp>
#include <causeway/optim/divisible.hpp>
#include <causeway/optim/fed_adam.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/nadam.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/nesterov_in_parts.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sign_sgd.hpp>
#include <causeway/optim/snoo.hpp>

#include <causeway/compress/bf16.hpp>
#include <causeway/compress/bit_stream.hpp>
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/bucket_means.hpp>
#include <causeway/compress/chunks.hpp>
#include <causeway/compress/codebook.hpp>
#include <causeway/compress/codebook_rows.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/compress/dynamic_map.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/index_set.hpp>
#include <causeway/compress/mask.hpp>
#include <causeway/compress/message.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/compress/packing.hpp>
#include <causeway/compress/scale.hpp>
#include <causeway/compress/sigma_int8.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/compress/sparse.hpp>
#include <causeway/compress/sparsifier.hpp>
#include <causeway/compress/stacked.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_k.hpp>
#include <causeway/compress/top_selection.hpp>
#include <causeway/compress/transform.hpp>
#include <causeway/nn/adapters.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/key_value_cache.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/nn/memory_estimate.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/model_engine.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/nn/recorded_passes.hpp>

#include <causeway/axis/arrivals.hpp>
#include <causeway/axis/batch_by_speed.hpp>
#include <causeway/axis/by_change.hpp>
#include <causeway/axis/by_speed.hpp>
#include <causeway/axis/content.hpp>
#include <causeway/axis/every.hpp>
#include <causeway/axis/exchange.hpp>
#include <causeway/axis/fragments.hpp>
#include <causeway/axis/global_samples.hpp>
#include <causeway/axis/groups.hpp>
#include <causeway/axis/growing.hpp>
#include <causeway/axis/hubs.hpp>
#include <causeway/axis/linked_groups.hpp>
#include <causeway/axis/low_rank_mean.hpp>
#include <causeway/axis/merge_rule.hpp>
#include <causeway/axis/module_groups.hpp>
#include <causeway/axis/outer.hpp>
#include <causeway/axis/participation.hpp>
#include <causeway/axis/parts.hpp>
#include <causeway/axis/penalised_mean.hpp>
#include <causeway/axis/residual.hpp>
#include <causeway/axis/speeds.hpp>

#include <causeway/comm/alike_at_end.hpp>
#include <causeway/comm/arrival_rules.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/comm/block_rows.hpp>
#include <causeway/comm/by_site.hpp>
#include <causeway/comm/common_steps.hpp>
#include <causeway/comm/elastic_pushes.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/fixed_turns.hpp>
#include <causeway/comm/fragment_rows.hpp>
#include <causeway/comm/hub_clients.hpp>
#include <causeway/comm/hub_copy.hpp>
#include <causeway/comm/hub_line.hpp>
#include <causeway/comm/hub_pushes.hpp>
#include <causeway/comm/hub_record.hpp>
#include <causeway/comm/hub_roles.hpp>
#include <causeway/comm/hub_rules.hpp>
#include <causeway/comm/hub_tier.hpp>
#include <causeway/comm/late_rows.hpp>
#include <causeway/comm/look_ahead.hpp>
#include <causeway/comm/meeting_places.hpp>
#include <causeway/comm/outer_rows.hpp>
#include <causeway/comm/own_parameters.hpp>
#include <causeway/comm/own_part.hpp>
#include <causeway/comm/parameter_server.hpp>
#include <causeway/comm/path_modules.hpp>
#include <causeway/comm/path_roster.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/comm/post_local.hpp>
#include <causeway/comm/push_aggregator.hpp>
#include <causeway/comm/push_core.hpp>
#include <causeway/comm/round_core.hpp>
#include <causeway/comm/round_links.hpp>
#include <causeway/comm/round_rows.hpp>
#include <causeway/comm/round_rules.hpp>
#include <causeway/comm/round_state.hpp>
#include <causeway/comm/round_turns.hpp>
#include <causeway/comm/rounds.hpp>
#include <causeway/comm/server_client.hpp>
#include <causeway/comm/stacked.hpp>
#include <causeway/comm/stacked_turns.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include <causeway/train/checkpoint.hpp>
#include <causeway/train/flat_model.hpp>
#include <causeway/train/observer.hpp>
#include <causeway/train/trainer.hpp>

#if __has_include(<cereal/cereal.hpp>) && !defined(CAUSEWAY_NO_CEREAL) && !defined(__CUDACC__)
#include <causeway/io/cereal_archive.hpp>
#endif

#endif  // CAUSEWAY_TRAIN_HPP
