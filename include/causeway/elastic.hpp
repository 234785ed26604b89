// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_ELASTIC_HPP
#define CAUSEWAY_ELASTIC_HPP

// For peers that come and go during a run: membership, transfers of state, fault::quorum.
//
// Written by tools/check_tree.py --fix-umbrella. What needs a third-party library comes last and only where that library is
// at hand; only headers like this one may include others of ours inside #if.

#include <causeway/membership/acceptor.hpp>
#include <causeway/membership/attempt.hpp>
#include <causeway/membership/attendance.hpp>
#include <causeway/membership/blame.hpp>
#include <causeway/membership/candidate.hpp>
#include <causeway/membership/checker.hpp>
#include <causeway/membership/durable_record.hpp>
#include <causeway/membership/evidence.hpp>
#include <causeway/membership/finder.hpp>
#include <causeway/membership/follower.hpp>
#include <causeway/membership/history.hpp>
#include <causeway/membership/leader.hpp>
#include <causeway/membership/ledger.hpp>
#include <causeway/membership/messages.hpp>
#include <causeway/membership/outlook.hpp>
#include <causeway/membership/peer_table.hpp>
#include <causeway/membership/proposal.hpp>
#include <causeway/membership/protocol.hpp>
#include <causeway/membership/records.hpp>
#include <causeway/membership/refound.hpp>
#include <causeway/membership/round_store.hpp>
#include <causeway/membership/situation.hpp>
#include <causeway/membership/state_image.hpp>
#include <causeway/membership/transfer/transfer.hpp>
#include <causeway/membership/transfer/transfer_catch_up.hpp>
#include <causeway/membership/transfer/transfer_donor.hpp>
#include <causeway/membership/transfer/transfer_fetcher.hpp>
#include <causeway/membership/transfer/transfer_holders.hpp>
#include <causeway/membership/transfer/transfer_options.hpp>
#include <causeway/membership/transfer/transfer_wire.hpp>

#include <causeway/fault/fail_stop.hpp>
#include <causeway/fault/quorum.hpp>
#include <causeway/fault/restart.hpp>

#include <causeway/train/by_segment.hpp>
#include <causeway/train/checkpoint.hpp>
#include <causeway/train/common_cut.hpp>
#include <causeway/train/context.hpp>
#include <causeway/train/contribution.hpp>
#include <causeway/train/entered_attempt.hpp>
#include <causeway/train/environment.hpp>
#include <causeway/train/fixed_group.hpp>
#include <causeway/train/flat_model.hpp>
#include <causeway/train/held_round.hpp>
#include <causeway/train/inner_steps.hpp>
#include <causeway/train/mean_exchange.hpp>
#include <causeway/train/member.hpp>
#include <causeway/train/member_control.hpp>
#include <causeway/train/member_waits.hpp>
#include <causeway/train/model.hpp>
#include <causeway/train/model_arithmetic.hpp>
#include <causeway/train/observer.hpp>
#include <causeway/train/parameter_window.hpp>
#include <causeway/train/pipeline_group.hpp>
#include <causeway/train/refound.hpp>
#include <causeway/train/round_attendance.hpp>
#include <causeway/train/run_group.hpp>
#include <causeway/train/shared_state_of.hpp>
#include <causeway/train/site_model.hpp>
#include <causeway/train/stage_peers.hpp>
#include <causeway/train/state_fetch.hpp>
#include <causeway/train/trainer.hpp>
#include <causeway/train/unusable_rows.hpp>
#include <causeway/train/write_behind.hpp>

#endif  // CAUSEWAY_ELASTIC_HPP
