// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PIPELINES_HPP
#define CAUSEWAY_PIPELINES_HPP

// To cut a model into stages: schedules, activation codecs, pipelines, elastic pipelines, swarms.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/stage/activation.hpp>
#include <causeway/stage/adaptive_top_k.hpp>
#include <causeway/stage/block_choice.hpp>
#include <causeway/stage/block_routing.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/expert.hpp>
#include <causeway/stage/expert_directory.hpp>
#include <causeway/stage/frozen_blocks.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/product_key_gate.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_redundant_forward.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_templates.hpp>
#include <causeway/stage/routing.hpp>
#include <causeway/stage/routing_by_chance.hpp>
#include <causeway/stage/routing_flow.hpp>
#include <causeway/stage/routing_skip.hpp>
#include <causeway/stage/row_bits.hpp>
#include <causeway/stage/run_history.hpp>
#include <causeway/stage/sample_buffers.hpp>
#include <causeway/stage/schedules.hpp>
#include <causeway/stage/subspace.hpp>
#include <causeway/stage/subspace_adamw.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/stage/subspace_pieces.hpp>
#include <causeway/stage/subspace_refresh.hpp>

#include <causeway/parallel/async_pipeline.hpp>
#include <causeway/parallel/async_pipeline_mail.hpp>
#include <causeway/parallel/async_pipeline_stash.hpp>
#include <causeway/parallel/async_pipeline_stream.hpp>
#include <causeway/parallel/block_client.hpp>
#include <causeway/parallel/block_messages.hpp>
#include <causeway/parallel/block_moves.hpp>
#include <causeway/parallel/block_ownership.hpp>
#include <causeway/parallel/block_passage.hpp>
#include <causeway/parallel/block_request_handler.hpp>
#include <causeway/parallel/block_rpc_codec.hpp>
#include <causeway/parallel/block_savers.hpp>
#include <causeway/parallel/block_server.hpp>
#include <causeway/parallel/block_server_directory.hpp>
#include <causeway/parallel/block_store.hpp>
#include <causeway/parallel/block_sums.hpp>
#include <causeway/parallel/crew.hpp>
#include <causeway/parallel/crew_facts.hpp>
#include <causeway/parallel/crew_turns.hpp>
#include <causeway/parallel/data_parallel.hpp>
#include <causeway/parallel/elastic_pipeline.hpp>
#include <causeway/parallel/embedding_base.hpp>
#include <causeway/parallel/envelope.hpp>
#include <causeway/parallel/expert_client.hpp>
#include <causeway/parallel/expert_gpt.hpp>
#include <causeway/parallel/expert_host.hpp>
#include <causeway/parallel/expert_layer.hpp>
#include <causeway/parallel/expert_messages.hpp>
#include <causeway/parallel/interpolated_blocks.hpp>
#include <causeway/parallel/kept_pass.hpp>
#include <causeway/parallel/local_swarm.hpp>
#include <causeway/parallel/micro_batches.hpp>
#include <causeway/parallel/parcel_mail.hpp>
#include <causeway/parallel/part_change.hpp>
#include <causeway/parallel/pipeline.hpp>
#include <causeway/parallel/pipeline_batch.hpp>
#include <causeway/parallel/pipeline_pass.hpp>
#include <causeway/parallel/pipeline_place.hpp>
#include <causeway/parallel/pipeline_talk.hpp>
#include <causeway/parallel/remote_pass.hpp>
#include <causeway/parallel/resumable_step.hpp>
#include <causeway/parallel/seat_work.hpp>
#include <causeway/parallel/stage_mail.hpp>
#include <causeway/parallel/stage_model.hpp>
#include <causeway/parallel/step_snapshot.hpp>
#include <causeway/parallel/swarm.hpp>
#include <causeway/parallel/swarm_balance.hpp>
#include <causeway/parallel/swarm_driver.hpp>
#include <causeway/parallel/swarm_ends.hpp>
#include <causeway/parallel/swarm_hearing.hpp>
#include <causeway/parallel/swarm_lead.hpp>
#include <causeway/parallel/swarm_mail.hpp>
#include <causeway/parallel/swarm_messages.hpp>
#include <causeway/parallel/swarm_options.hpp>
#include <causeway/parallel/swarm_peer.hpp>
#include <causeway/parallel/swarm_shares.hpp>
#include <causeway/parallel/swarm_station.hpp>
#include <causeway/parallel/swarm_table.hpp>
#include <causeway/parallel/swarm_table_exchange.hpp>
#include <causeway/parallel/swarm_talk.hpp>
#include <causeway/parallel/swarm_work.hpp>
#include <causeway/parallel/tied_table.hpp>
#include <causeway/parallel/tuned_model.hpp>
#include <causeway/parallel/tuned_parameters.hpp>
#include <causeway/parallel/unsound_steps.hpp>

#endif  // CAUSEWAY_PIPELINES_HPP
