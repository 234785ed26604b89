// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CAUSEWAY_HPP
#define CAUSEWAY_CAUSEWAY_HPP

// Everything. Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only
// where that library is at hand; no other header may include one of ours inside #if.

#include <causeway/config/config.hpp>
#include <causeway/config/version.hpp>

#include <causeway/core/clock.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/hash.hpp>
#include <causeway/core/metrics.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>

#include <causeway/io/checkpoint.hpp>
#include <causeway/io/file.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/io/memory_storage.hpp>
#include <causeway/io/section.hpp>
#include <causeway/io/section_file.hpp>
#include <causeway/io/storage.hpp>
#include <causeway/net/asio_meeting.hpp>
#include <causeway/net/asio_roster.hpp>
#include <causeway/net/codec.hpp>
#include <causeway/net/deadline.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/fabric.hpp>
#include <causeway/net/frame.hpp>
#include <causeway/net/inbox.hpp>
#include <causeway/net/link_transport.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/net/operations.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/tensor/batch.hpp>
#include <causeway/tensor/buffer.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/dtype.hpp>
#include <causeway/tensor/parameters.hpp>
#include <causeway/tensor/scratch.hpp>
#include <causeway/tensor/shape.hpp>
#include <causeway/tensor/tensor.hpp>

#include <causeway/data/batcher.hpp>
#include <causeway/data/bpe_tokenizer.hpp>
#include <causeway/data/bpe_trainer.hpp>
#include <causeway/data/pre_tokenizer.hpp>
#include <causeway/data/sampler.hpp>
#include <causeway/data/text.hpp>
#include <causeway/data/token_shard.hpp>
#include <causeway/data/token_stream.hpp>
#include <causeway/data/tokenizer.hpp>
#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/attention.hpp>
#include <causeway/kernels/attention_backward.hpp>
#include <causeway/kernels/attention_forward.hpp>
#include <causeway/kernels/attention_tiles.hpp>
#include <causeway/kernels/attention_tiles_avx2.hpp>
#include <causeway/kernels/attention_tiles_avx512.hpp>
#include <causeway/kernels/attention_tiles_bf16.hpp>
#include <causeway/kernels/backend.hpp>
#include <causeway/kernels/cblas_gemm.hpp>
#include <causeway/kernels/column_sum.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/cpu_features.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/default_gemm.hpp>
#include <causeway/kernels/dropout.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/kernels/gemm.hpp>
#include <causeway/kernels/norm.hpp>
#include <causeway/kernels/onednn_gemm.hpp>
#include <causeway/kernels/openmp_guard.hpp>
#include <causeway/kernels/optimizer.hpp>
#include <causeway/kernels/packed_gemm.hpp>
#include <causeway/kernels/packed_gemm_avx2.hpp>
#include <causeway/kernels/packed_gemm_avx512.hpp>
#include <causeway/kernels/packed_gemm_avx512_bf16.hpp>
#include <causeway/kernels/packed_gemm_blocking.hpp>
#include <causeway/kernels/packed_gemm_finish.hpp>
#include <causeway/kernels/packed_gemm_portable.hpp>
#include <causeway/kernels/reduce.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/kernels/simd_math.hpp>
#include <causeway/kernels/targets.hpp>
#include <causeway/sim/connection.hpp>
#include <causeway/sim/dialer.hpp>
#include <causeway/sim/disk.hpp>
#include <causeway/sim/disk_file.hpp>
#include <causeway/sim/disk_tree.hpp>
#include <causeway/sim/fabric.hpp>
#include <causeway/sim/fault_apply.hpp>
#include <causeway/sim/fault_plan.hpp>
#include <causeway/sim/fault_profile.hpp>
#include <causeway/sim/fiber.hpp>
#include <causeway/sim/link_table.hpp>
#include <causeway/sim/links.hpp>
#include <causeway/sim/mailbox.hpp>
#include <causeway/sim/network.hpp>
#include <causeway/sim/options.hpp>
#include <causeway/sim/parcel.hpp>
#include <causeway/sim/process.hpp>
#include <causeway/sim/queue.hpp>
#include <causeway/sim/scheduler.hpp>
#include <causeway/sim/table_text.hpp>
#include <causeway/sim/transit.hpp>
#include <causeway/sim/transport.hpp>
#include <causeway/sim/world.hpp>

#include <causeway/autograd/checkpoint.hpp>
#include <causeway/autograd/grad_check.hpp>
#include <causeway/autograd/linear.hpp>
#include <causeway/autograd/ops.hpp>
#include <causeway/autograd/tape.hpp>
#include <causeway/autograd/variable.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/optim/clip.hpp>
#include <causeway/optim/muon.hpp>
#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/optimizer.hpp>
#include <causeway/optim/schedule.hpp>
#include <causeway/optim/sgd.hpp>

#include <causeway/collective/all_reduce.hpp>
#include <causeway/collective/barrier.hpp>
#include <causeway/collective/broadcast.hpp>
#include <causeway/collective/butterfly.hpp>
#include <causeway/collective/channels.hpp>
#include <causeway/collective/encoding.hpp>
#include <causeway/collective/flight.hpp>
#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/collective/refusal.hpp>
#include <causeway/collective/ring.hpp>
#include <causeway/collective/sum.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/codec.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/compress/none.hpp>
#include <causeway/membership/acceptor.hpp>
#include <causeway/membership/attempt.hpp>
#include <causeway/membership/candidate.hpp>
#include <causeway/membership/checker.hpp>
#include <causeway/membership/decision.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/finder.hpp>
#include <causeway/membership/follower.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/leader.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/protocol.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/suspects.hpp>
#include <causeway/membership/transfer.hpp>
#include <causeway/membership/transfer_donor.hpp>
#include <causeway/membership/transfer_fetcher.hpp>
#include <causeway/membership/transfer_holder.hpp>
#include <causeway/membership/transfer_holders.hpp>
#include <causeway/membership/transfer_manifest.hpp>
#include <causeway/membership/transfer_options.hpp>
#include <causeway/membership/transfer_plan.hpp>
#include <causeway/membership/transfer_wire.hpp>
#include <causeway/nn/declaration.hpp>
#include <causeway/nn/gpt.hpp>
#include <causeway/nn/language_model.hpp>
#include <causeway/nn/llama.hpp>
#include <causeway/nn/memory_estimate.hpp>
#include <causeway/nn/micro_batch.hpp>
#include <causeway/nn/options.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/policy/archetype.hpp>
#include <causeway/policy/concepts.hpp>
#include <causeway/policy/pick.hpp>
#include <causeway/policy/rules.hpp>
#include <causeway/policy/traits.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/parallel/data_parallel.hpp>

#include <causeway/train/checkpoint.hpp>
#include <causeway/train/context.hpp>
#include <causeway/train/elastic_group.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/observer.hpp>
#include <causeway/train/trainer.hpp>
#include <causeway/train/view_transport.hpp>

#include <causeway/presets/local_updates.hpp>

#if __has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__)
#include <causeway/net/asio_conversation.hpp>
#include <causeway/net/asio_core.hpp>
#include <causeway/net/asio_door.hpp>
#include <causeway/net/asio_engine.hpp>
#include <causeway/net/asio_fabric.hpp>
#include <causeway/net/asio_greeting.hpp>
#include <causeway/net/asio_host.hpp>
#include <causeway/net/asio_join.hpp>
#include <causeway/net/asio_library.hpp>
#include <causeway/net/asio_link.hpp>
#include <causeway/net/asio_listener.hpp>
#include <causeway/net/asio_loop.hpp>
#include <causeway/net/asio_mesh.hpp>
#include <causeway/net/asio_outbox.hpp>
#include <causeway/net/asio_stream.hpp>
#include <causeway/net/asio_transport.hpp>
#include <causeway/net/rendezvous.hpp>
#endif

#if __has_include(<cereal/cereal.hpp>) && !defined(CAUSEWAY_NO_CEREAL) && !defined(__CUDACC__)
#include <causeway/io/archive.hpp>
#endif

#if defined(__CUDACC__)
#include <causeway/cuda/elementwise.cuh>
#include <causeway/cuda/runtime.cuh>
#endif

#endif  // CAUSEWAY_CAUSEWAY_HPP
