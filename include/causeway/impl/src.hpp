// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IMPL_SRC_HPP
#define CAUSEWAY_IMPL_SRC_HPP

// The bodies of all functions that are no templates, for one source file of a program that is compiled with
// CAUSEWAY_COMPILED. With CAUSEWAY_PART, one to CAUSEWAY_PARTS, a part of them, so that several compilers can work at once.
//
// Written by tools/check_tree.py --fix-umbrella.

#ifndef CAUSEWAY_COMPILED
#error "causeway/impl/src.hpp: define CAUSEWAY_COMPILED, here and for all that includes causeway"
#endif

#define CAUSEWAY_PARTS 20

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 20
#define CAUSEWAY_DEFINE_KERNELS
#include <causeway/compress/bits.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/bucket_means.hpp>
#include <causeway/compress/dct.hpp>
#include <causeway/compress/dynamic_int8.hpp>
#include <causeway/compress/e3m0.hpp>
#include <causeway/compress/element.hpp>
#include <causeway/compress/sign.hpp>
#include <causeway/compress/threshold.hpp>
#include <causeway/compress/top_selection.hpp>
#include <causeway/kernels/activation.hpp>
#include <causeway/kernels/column_sum.hpp>
#include <causeway/kernels/convert.hpp>
#include <causeway/kernels/cross_entropy.hpp>
#include <causeway/kernels/decode.hpp>
#include <causeway/kernels/dropout.hpp>
#include <causeway/kernels/elementwise.hpp>
#include <causeway/kernels/embedding.hpp>
#include <causeway/kernels/finite.hpp>
#include <causeway/kernels/low_rank.hpp>
#include <causeway/kernels/norm.hpp>
#include <causeway/kernels/rotary.hpp>
#include <causeway/kernels/rows.hpp>
#include <causeway/optim/lamb.hpp>
#include <causeway/optim/nadam.hpp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 1
#include <causeway/core/impl/rng.ipp>
#include <causeway/core/impl/table_text.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 2
#include <causeway/io/impl/archive.ipp>
#include <causeway/io/impl/checkpoint.ipp>
#include <causeway/io/impl/file.ipp>
#include <causeway/io/impl/file_storage.ipp>
#include <causeway/io/impl/memory_storage.ipp>
#include <causeway/io/impl/section_file.ipp>
#include <causeway/io/impl/storage.ipp>
#if __has_include(<cereal/cereal.hpp>) && !defined(CAUSEWAY_NO_CEREAL) && !defined(__CUDACC__)
#include <causeway/io/impl/cereal_archive.ipp>
#endif
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 3
#include <causeway/net/impl/asio_meeting.ipp>
#include <causeway/net/impl/codec.ipp>
#include <causeway/net/impl/deadline.ipp>
#include <causeway/net/impl/descriptors.ipp>
#include <causeway/net/impl/endpoint.ipp>
#include <causeway/net/impl/float_packing.ipp>
#include <causeway/net/impl/frame.ipp>
#include <causeway/net/impl/half_open.ipp>
#include <causeway/net/impl/inbox.ipp>
#include <causeway/net/impl/link_transport.ipp>
#include <causeway/net/impl/memory_transport.ipp>
#include <causeway/net/impl/operations.ipp>
#include <causeway/net/impl/shared_rings.ipp>
#include <causeway/net/impl/side_thread.ipp>
#include <causeway/net/impl/transport.ipp>
#if __has_include(<asio.hpp>) && !defined(CAUSEWAY_NO_ASIO) && !defined(__CUDACC__)
#include <causeway/net/impl/asio_accept.ipp>
#include <causeway/net/impl/asio_ask.ipp>
#include <causeway/net/impl/asio_conversation.ipp>
#include <causeway/net/impl/asio_core.ipp>
#include <causeway/net/impl/asio_engine.ipp>
#include <causeway/net/impl/asio_fabric.ipp>
#include <causeway/net/impl/asio_frame_reader.ipp>
#include <causeway/net/impl/asio_greeting.ipp>
#include <causeway/net/impl/asio_host.ipp>
#include <causeway/net/impl/asio_join.ipp>
#include <causeway/net/impl/asio_library.ipp>
#include <causeway/net/impl/asio_link.ipp>
#include <causeway/net/impl/asio_listener.ipp>
#include <causeway/net/impl/asio_memory_move.ipp>
#include <causeway/net/impl/asio_memory_stream.ipp>
#include <causeway/net/impl/asio_mesh.ipp>
#include <causeway/net/impl/asio_mesh_engine.ipp>
#include <causeway/net/impl/asio_outbox.ipp>
#include <causeway/net/impl/asio_stream.ipp>
#include <causeway/net/impl/asio_stream_waits.ipp>
#include <causeway/net/impl/asio_transport.ipp>
#include <causeway/net/impl/handshake_acceptor.ipp>
#include <causeway/net/impl/rendezvous.ipp>
#endif
#if defined(CAUSEWAY_HAS_MPI)
#include <causeway/net/impl/mpi_engine.ipp>
#include <causeway/net/impl/mpi_transport.ipp>
#include <causeway/net/impl/mpi_world.ipp>
#endif
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 4
#include <causeway/plan/impl/availability.ipp>
#include <causeway/plan/impl/batch_rate.ipp>
#include <causeway/plan/impl/clusters.ipp>
#include <causeway/plan/impl/dtfm.ipp>
#include <causeway/plan/impl/dtfm_score.ipp>
#include <causeway/plan/impl/flow_search.ipp>
#include <causeway/plan/impl/link_fixtures.ipp>
#include <causeway/plan/impl/link_matrix.ipp>
#include <causeway/plan/impl/liveput.ipp>
#include <causeway/plan/impl/matching.ipp>
#include <causeway/plan/impl/open_path.ipp>
#include <causeway/plan/impl/peer_grid.ipp>
#include <causeway/plan/impl/picture.ipp>
#include <causeway/plan/impl/pipeline_clock.ipp>
#include <causeway/plan/impl/pipeline_plan.ipp>
#include <causeway/plan/impl/placement.ipp>
#include <causeway/plan/impl/preemption_trace.ipp>
#include <causeway/plan/impl/preemption_trace_text.ipp>
#include <causeway/plan/impl/recovery.ipp>
#include <causeway/plan/impl/recovery_morph.ipp>
#include <causeway/plan/impl/recovery_neighbour.ipp>
#include <causeway/plan/impl/recovery_proactive.ipp>
#include <causeway/plan/impl/recovery_redundant.ipp>
#include <causeway/plan/impl/recovery_reroute.ipp>
#include <causeway/plan/impl/recovery_restart.ipp>
#include <causeway/plan/impl/recovery_swarm.ipp>
#include <causeway/plan/impl/recovery_templates.ipp>
#include <causeway/plan/impl/resumed_order.ipp>
#include <causeway/plan/impl/roles.ipp>
#include <causeway/plan/impl/routed_schedule.ipp>
#include <causeway/plan/impl/routed_time.ipp>
#include <causeway/plan/impl/schedule.ipp>
#include <causeway/plan/impl/schedule_check.ipp>
#include <causeway/plan/impl/schedule_cursor.ipp>
#include <causeway/plan/impl/schedule_greedy.ipp>
#include <causeway/plan/impl/schedule_varuna.ipp>
#include <causeway/plan/impl/schedules.ipp>
#include <causeway/plan/impl/skip_placement.ipp>
#include <causeway/plan/impl/skip_plan.ipp>
#include <causeway/plan/impl/skip_route.ipp>
#include <causeway/plan/impl/square_cube.ipp>
#include <causeway/plan/impl/stage_costs.ipp>
#include <causeway/plan/impl/stage_split.ipp>
#include <causeway/plan/impl/step_estimate.ipp>
#include <causeway/plan/impl/template_choice.ipp>
#include <causeway/plan/impl/template_reaction.ipp>
#include <causeway/plan/impl/templates.ipp>
#include <causeway/plan/impl/timeline.ipp>
#include <causeway/plan/impl/transformer_cost.ipp>
#include <causeway/plan/impl/two_way_schedules.ipp>
#include <causeway/plan/impl/utilisation.ipp>
#include <causeway/plan/impl/varuna_search.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 5
#include <causeway/data/impl/batcher.ipp>
#include <causeway/data/impl/bpe_table.ipp>
#include <causeway/data/impl/bpe_tokenizer.ipp>
#include <causeway/data/impl/bpe_trainer.ipp>
#include <causeway/data/impl/data_files.ipp>
#include <causeway/data/impl/document_router.ipp>
#include <causeway/data/impl/k_means.ipp>
#include <causeway/data/impl/pre_tokenizer.ipp>
#include <causeway/data/impl/text.ipp>
#include <causeway/data/impl/token_shard.ipp>
#include <causeway/data/impl/token_stream.ipp>
#include <causeway/data/impl/tokenizer.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 6
#include <causeway/kernels/impl/attention.ipp>
#include <causeway/kernels/impl/bf16_kernels.ipp>
#include <causeway/kernels/impl/bf16_level.ipp>
#include <causeway/kernels/impl/optimizer.ipp>
#include <causeway/kernels/impl/outer_update.ipp>
#include <causeway/kernels/impl/packed_gemm.ipp>
#include <causeway/kernels/impl/reduce.ipp>
#include <causeway/kernels/impl/row_hash.ipp>
#include <causeway/kernels/impl/singular_vectors.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 7
#include <causeway/sim/impl/connection.ipp>
#include <causeway/sim/impl/dialer.ipp>
#include <causeway/sim/impl/disk.ipp>
#include <causeway/sim/impl/disk_file.ipp>
#include <causeway/sim/impl/disk_tree.ipp>
#include <causeway/sim/impl/fabric.ipp>
#include <causeway/sim/impl/fault_apply.ipp>
#include <causeway/sim/impl/fault_plan.ipp>
#include <causeway/sim/impl/fault_profile.ipp>
#include <causeway/sim/impl/fiber.ipp>
#include <causeway/sim/impl/host_clock.ipp>
#include <causeway/sim/impl/link_table.ipp>
#include <causeway/sim/impl/links.ipp>
#include <causeway/sim/impl/mailbox.ipp>
#include <causeway/sim/impl/network.ipp>
#include <causeway/sim/impl/process.ipp>
#include <causeway/sim/impl/scheduler.ipp>
#include <causeway/sim/impl/transit.ipp>
#include <causeway/sim/impl/transport.ipp>
#include <causeway/sim/impl/world.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 8
#include <causeway/optim/impl/sparse_steps.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 9
#include <causeway/collective/impl/aggregator.ipp>
#include <causeway/collective/impl/all_reduce.ipp>
#include <causeway/collective/impl/conversation.ipp>
#include <causeway/collective/impl/exchange_message.ipp>
#include <causeway/collective/impl/flight.ipp>
#include <causeway/collective/impl/gather.ipp>
#include <causeway/collective/impl/group_view.ipp>
#include <causeway/collective/impl/link_times.ipp>
#include <causeway/collective/impl/link_trees.ipp>
#include <causeway/collective/impl/norm_aggregators.ipp>
#include <causeway/collective/impl/options.ipp>
#include <causeway/collective/impl/pairs.ipp>
#include <causeway/collective/impl/refusal.ipp>
#include <causeway/collective/impl/relay_paths.ipp>
#include <causeway/collective/impl/ring_order.ipp>
#include <causeway/collective/impl/server_residual.ipp>
#include <causeway/collective/impl/shared_sum.ipp>
#include <causeway/collective/impl/shares.ipp>
#include <causeway/collective/impl/sum.ipp>
#include <causeway/collective/impl/transport_site.ipp>
#include <causeway/collective/impl/tree_relays.ipp>
#include <causeway/collective/impl/two_level_mean.ipp>
#if defined(CAUSEWAY_HAS_MPI)
#include <causeway/collective/impl/mpi_site.ipp>
#include <causeway/collective/impl/mpi_sums.ipp>
#endif
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 10
#include <causeway/compress/impl/group_map.ipp>
#include <causeway/compress/impl/value_groups.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 11
#include <causeway/membership/impl/acceptor.ipp>
#include <causeway/membership/impl/attempt.ipp>
#include <causeway/membership/impl/attendance.ipp>
#include <causeway/membership/impl/blame.ipp>
#include <causeway/membership/impl/candidate.ipp>
#include <causeway/membership/impl/checker.ipp>
#include <causeway/membership/impl/durable_record.ipp>
#include <causeway/membership/impl/evidence.ipp>
#include <causeway/membership/impl/finder.ipp>
#include <causeway/membership/impl/follower.ipp>
#include <causeway/membership/impl/history.ipp>
#include <causeway/membership/impl/leader.ipp>
#include <causeway/membership/impl/ledger.ipp>
#include <causeway/membership/impl/messages.ipp>
#include <causeway/membership/impl/outlook.ipp>
#include <causeway/membership/impl/peer_table.ipp>
#include <causeway/membership/impl/proposal.ipp>
#include <causeway/membership/impl/protocol.ipp>
#include <causeway/membership/impl/records.ipp>
#include <causeway/membership/impl/refound.ipp>
#include <causeway/membership/impl/round_store.ipp>
#include <causeway/membership/impl/state_image.ipp>
#include <causeway/membership/transfer/impl/transfer.ipp>
#include <causeway/membership/transfer/impl/transfer_catch_up.ipp>
#include <causeway/membership/transfer/impl/transfer_donor.ipp>
#include <causeway/membership/transfer/impl/transfer_fetcher.ipp>
#include <causeway/membership/transfer/impl/transfer_holders.ipp>
#include <causeway/membership/transfer/impl/transfer_wire.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 12
#include <causeway/nn/impl/adapters.ipp>
#include <causeway/nn/impl/declaration.ipp>
#include <causeway/nn/impl/gpt.ipp>
#include <causeway/nn/impl/llama.ipp>
#include <causeway/nn/impl/memory_estimate.ipp>
#include <causeway/nn/impl/micro_batch.ipp>
#include <causeway/nn/impl/model_part.ipp>
#include <causeway/nn/impl/options.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 13
#include <causeway/axis/impl/arrivals.ipp>
#include <causeway/axis/impl/batch_by_speed.ipp>
#include <causeway/axis/impl/by_change.ipp>
#include <causeway/axis/impl/by_speed.ipp>
#include <causeway/axis/impl/every.ipp>
#include <causeway/axis/impl/every_seconds.ipp>
#include <causeway/axis/impl/fragments.ipp>
#include <causeway/axis/impl/global_samples.ipp>
#include <causeway/axis/impl/group_threshold_mean.ipp>
#include <causeway/axis/impl/groups.ipp>
#include <causeway/axis/impl/growing.ipp>
#include <causeway/axis/impl/hubs.ipp>
#include <causeway/axis/impl/linked_groups.ipp>
#include <causeway/axis/impl/low_rank_mean.ipp>
#include <causeway/axis/impl/merge_rule.ipp>
#include <causeway/axis/impl/module_groups.ipp>
#include <causeway/axis/impl/outer.ipp>
#include <causeway/axis/impl/participation.ipp>
#include <causeway/axis/impl/penalised_mean.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 14
#if defined(CAUSEWAY_HAS_JSON)
#include <causeway/formats/impl/document_reader.ipp>
#include <causeway/formats/impl/gguf.ipp>
#include <causeway/formats/impl/gguf_model.ipp>
#include <causeway/formats/impl/huggingface.ipp>
#include <causeway/formats/impl/json.ipp>
#include <causeway/formats/impl/model_config.ipp>
#include <causeway/formats/impl/safetensors.ipp>
#include <causeway/formats/impl/tokenizer_folder.ipp>
#include <causeway/formats/impl/tokenizer_json.ipp>
#include <causeway/formats/impl/tokenizer_parts.ipp>
#include <causeway/formats/impl/weight_files.ipp>
#endif
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 15
#include <causeway/stage/impl/adaptive_top_k.ipp>
#include <causeway/stage/impl/block_choice.ipp>
#include <causeway/stage/impl/block_routing.ipp>
#include <causeway/stage/impl/expert_directory.ipp>
#include <causeway/stage/impl/layout.ipp>
#include <causeway/stage/impl/product_key_gate.ipp>
#include <causeway/stage/impl/recovery.ipp>
#include <causeway/stage/impl/recovery_morph.ipp>
#include <causeway/stage/impl/recovery_neighbour.ipp>
#include <causeway/stage/impl/recovery_proactive.ipp>
#include <causeway/stage/impl/recovery_redundant.ipp>
#include <causeway/stage/impl/recovery_redundant_forward.ipp>
#include <causeway/stage/impl/recovery_reroute.ipp>
#include <causeway/stage/impl/recovery_swapped.ipp>
#include <causeway/stage/impl/recovery_templates.ipp>
#include <causeway/stage/impl/routing.ipp>
#include <causeway/stage/impl/routing_by_chance.ipp>
#include <causeway/stage/impl/routing_flow.ipp>
#include <causeway/stage/impl/routing_planned.ipp>
#include <causeway/stage/impl/run_history.ipp>
#include <causeway/stage/impl/sample_buffers.ipp>
#include <causeway/stage/impl/schedules.ipp>
#include <causeway/stage/impl/subspace_adamw.ipp>
#include <causeway/stage/impl/subspace_basis.ipp>
#include <causeway/stage/impl/subspace_pieces.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 16
#include <causeway/comm/impl/common_steps.ipp>
#include <causeway/comm/impl/hub_clients.ipp>
#include <causeway/comm/impl/hub_copy.ipp>
#include <causeway/comm/impl/hub_line.ipp>
#include <causeway/comm/impl/hub_pushes.ipp>
#include <causeway/comm/impl/hub_roles.ipp>
#include <causeway/comm/impl/hub_rules.ipp>
#include <causeway/comm/impl/mirror_lines.ipp>
#include <causeway/comm/impl/mirror_record.ipp>
#include <causeway/comm/impl/path_roster.ipp>
#include <causeway/comm/impl/push_aggregator.ipp>
#include <causeway/comm/impl/server_client.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 17
#include <causeway/parallel/elastic/impl/assigned_work.ipp>
#include <causeway/parallel/elastic/impl/block_moves.ipp>
#include <causeway/parallel/elastic/impl/block_ownership.ipp>
#include <causeway/parallel/elastic/impl/block_savers.ipp>
#include <causeway/parallel/elastic/impl/block_segments.ipp>
#include <causeway/parallel/elastic/impl/block_store.ipp>
#include <causeway/parallel/elastic/impl/block_sums.ipp>
#include <causeway/parallel/elastic/impl/cohort_exchange.ipp>
#include <causeway/parallel/elastic/impl/cohort_progress.ipp>
#include <causeway/parallel/elastic/impl/cohort_rows.ipp>
#include <causeway/parallel/elastic/impl/cohorts.ipp>
#include <causeway/parallel/elastic/impl/counted_steps.ipp>
#include <causeway/parallel/elastic/impl/exchange_arrivals.ipp>
#include <causeway/parallel/elastic/impl/gathered_steps.ipp>
#include <causeway/parallel/elastic/impl/interpolated_blocks.ipp>
#include <causeway/parallel/elastic/impl/part_change.ipp>
#include <causeway/parallel/elastic/impl/peer_inventory.ipp>
#include <causeway/parallel/elastic/impl/pipeline_peer.ipp>
#include <causeway/parallel/elastic/impl/resumable_step.ipp>
#include <causeway/parallel/elastic/impl/step_snapshot.ipp>
#include <causeway/parallel/elastic/impl/step_turns.ipp>
#include <causeway/parallel/elastic/impl/step_vote.ipp>
#include <causeway/parallel/elastic/impl/unsound_steps.ipp>
#include <causeway/parallel/experts/impl/expert_client.ipp>
#include <causeway/parallel/experts/impl/expert_host.ipp>
#include <causeway/parallel/experts/impl/expert_layer.ipp>
#include <causeway/parallel/experts/impl/expert_messages.ipp>
#include <causeway/parallel/impl/micro_batches.ipp>
#include <causeway/parallel/impl/tied_table.ipp>
#include <causeway/parallel/pipeline/impl/async_pipeline_stash.ipp>
#include <causeway/parallel/pipeline/impl/embedding_base.ipp>
#include <causeway/parallel/pipeline/impl/pipeline_exchange.ipp>
#include <causeway/parallel/pipeline/impl/pipeline_place.ipp>
#include <causeway/parallel/pipeline/impl/random_routes.ipp>
#include <causeway/parallel/serving/impl/block_messages.ipp>
#include <causeway/parallel/serving/impl/block_passage.ipp>
#include <causeway/parallel/serving/impl/block_request_handler.ipp>
#include <causeway/parallel/serving/impl/block_server_directory.ipp>
#include <causeway/parallel/serving/impl/tuned_parameters.ipp>
#include <causeway/parallel/swarm/impl/early_orders.ipp>
#include <causeway/parallel/swarm/impl/micro_batch_state.ipp>
#include <causeway/parallel/swarm/impl/path_schedulers.ipp>
#include <causeway/parallel/swarm/impl/peer_directory.ipp>
#include <causeway/parallel/swarm/impl/stage_decisions.ipp>
#include <causeway/parallel/swarm/impl/swarm_balance.ipp>
#include <causeway/parallel/swarm/impl/swarm_coordinator.ipp>
#include <causeway/parallel/swarm/impl/swarm_message_handler.ipp>
#include <causeway/parallel/swarm/impl/swarm_messages.ipp>
#include <causeway/parallel/swarm/impl/swarm_messenger.ipp>
#include <causeway/parallel/swarm/impl/swarm_peer.ipp>
#include <causeway/parallel/swarm/impl/swarm_scheduler.ipp>
#include <causeway/parallel/swarm/impl/swarm_shares.ipp>
#include <causeway/parallel/swarm/impl/swarm_state.ipp>
#include <causeway/parallel/swarm/impl/swarm_table_exchange.ipp>
#include <causeway/parallel/swarm/impl/swarm_table_sync.ipp>
#include <causeway/parallel/swarm/impl/swarm_work.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 18
#include <causeway/train/impl/common_cut.ipp>
#include <causeway/train/impl/entered_attempt.ipp>
#include <causeway/train/impl/fixed_group.ipp>
#include <causeway/train/impl/flat_model.ipp>
#include <causeway/train/impl/held_round.ipp>
#include <causeway/train/impl/member.ipp>
#include <causeway/train/impl/member_control.ipp>
#include <causeway/train/impl/member_waits.ipp>
#include <causeway/train/impl/pipeline_group.ipp>
#include <causeway/train/impl/refound.ipp>
#include <causeway/train/impl/round_attendance.ipp>
#include <causeway/train/impl/stage_peers.ipp>
#include <causeway/train/impl/state_fetch.ipp>
#include <causeway/train/impl/swarm_group.ipp>
#include <causeway/train/impl/unusable_rows.ipp>
#include <causeway/train/impl/write_behind.ipp>
#endif

#if !defined(CAUSEWAY_PART) || CAUSEWAY_PART == 19
#include <causeway/presets/impl/asynchronous.ipp>
#include <causeway/presets/impl/compressed.ipp>
#include <causeway/presets/impl/elastic_pipelines.ipp>
#include <causeway/presets/impl/experts.ipp>
#include <causeway/presets/impl/gossip.ipp>
#include <causeway/presets/impl/local_updates.ipp>
#include <causeway/presets/impl/modular.ipp>
#include <causeway/presets/impl/optimizers.ipp>
#include <causeway/presets/impl/overlapped.ipp>
#include <causeway/presets/impl/pipelines.ipp>
#include <causeway/presets/impl/served_models.ipp>
#include <causeway/presets/impl/subspaces.ipp>
#include <causeway/presets/impl/swarms.ipp>
#endif

#endif  // CAUSEWAY_IMPL_SRC_HPP
