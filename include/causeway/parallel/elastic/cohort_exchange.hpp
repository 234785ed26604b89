// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_COHORT_EXCHANGE_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_COHORT_EXCHANGE_HPP

// What peers of pipelines whose replicas take steps of their own tell each other when they meet, beside what they hold.

#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/parallel/elastic/block_segments.hpp>
#include <causeway/parallel/elastic/peer_inventory.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/stage/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// `own` of every peer of `transport`, by its numbers. Values travel as they lie in memory.
template <class T>
result<std::vector<T>> of_all(auto& transport, const net::message_id& id, const T& own,
                              const collective::collective_options& options) {
  std::vector<T> all(transport.size(), own);
  if (all.size() > 1) {
    CAUSEWAY_TRY(collective::all_gather(transport, id, std::as_bytes(std::span{&own, 1}),
                                        std::as_writable_bytes(std::span{all}), options));
  }
  return all;
}

/// What a peer says before gradients are exchanged by the communication policy.
struct exchange_share {
  double loss = 0;             ///< of its part of the batch
  std::uint64_t state = 0;     ///< names what the policy keeps alike, as step_record::state
  std::uint64_t gathered = 0;  ///< names the gradients of earlier steps that it has added up; 0: none
  double row = 0;              ///< where results are a step late: micro-batches behind its row of the step before
};
/// Names what exchanges of that segment remember.
CAUSEWAY_DECL [[nodiscard]] std::uint64_t name_of_memory(const exchange_state& kept, std::size_t segment);

/// The exchange of rows of the step before, among the same holders: each counts by what is behind its row, or for nothing.
/// `all`: what everybody says.
CAUSEWAY_DECL [[nodiscard]] exchange_entry of_step_before(exchange_entry entry, const std::vector<exchange_share>& all);
/// Whether somebody has such a row of every segment.
CAUSEWAY_DECL [[nodiscard]] bool have_all_rows(const std::vector<block_segment>& segments,
                                               const std::map<std::uint64_t, net::peer_index>& index_of,
                                               const std::vector<exchange_share>& all);

/// Who missed a round, or has just come, takes what the communication policy keeps from the first who `has` it. Every peer
/// calls it if one does. Bytes: that, and one, from and to everybody. errc::not_found: nobody has it.
CAUSEWAY_DECL result<void> take_alike(net::any_transport& transport, const net::message_id& id, const exchange_state& state,
                                      bool has, const collective::collective_options& options);

/// What exchange_state::alike holds, as a block_store keeps it, and back.
CAUSEWAY_DECL [[nodiscard]] std::vector<float> as_numbers(const exchange_state& state);
CAUSEWAY_DECL void put_numbers(const exchange_state& state, std::span<const float> numbers);

/// Evaluations before one step, as the peers of a replica are through with them.
struct replica_evaluations {
  std::uint64_t steps = 0;                                   ///< that this peer has taken since the last exchange
  std::uint64_t through_with = 0;                            ///< the first of them
  double missed = std::numeric_limits<double>::quiet_NaN();  ///< what the one came to that `own` wants; unknown
};

/// Of this replica; `own` is this peer's word.
CAUSEWAY_DECL [[nodiscard]] replica_evaluations evaluations_in(const stage::replica& r, const cluster_inventory& inventory,
                                                               std::span<const cohort_member> members,
                                                               const cohort_member& own);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/cohort_exchange.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_COHORT_EXCHANGE_HPP
