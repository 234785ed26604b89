// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_STEP_SNAPSHOT_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_STEP_SNAPSHOT_HPP

// What a peer has done of a step that is not taken yet: its own stage's activations, what it sent, its sum of gradients,
// and the forwards of its successor's stage that it repeated. It outlives attempts that fail, so that the next one goes on
// from it; it does not outlive the state of the parameters that it was computed with, nor another layout.

#include <causeway/collective/gather.hpp>
#include <causeway/collective/options.hpp>
#include <causeway/config/config.hpp>
#include <causeway/core/error.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/transport.hpp>
#include <causeway/nn/pass.hpp>
#include <causeway/plan/resumed_order.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// One micro-batch in one stage.
template <class Tape>
struct kept_unit {
  plan::unit_state state = plan::unit_state::untouched;
  std::optional<Tape> tape;  ///< from the forward to the backward
  nn::stage_pass pass;       ///< likewise
  tensor output;             ///< what the stage behind gets; empty in the last
  tensor d_input;            ///< what the stage before gets, once the backward is done; empty in the first
  double loss = 0;           ///< in the last stage
};

/// What does not depend on the model.
class any_step_snapshot {
 public:
  virtual ~any_step_snapshot() = default;

  std::uint64_t state = 0;  ///< names the parameters
  std::uint64_t name = 0;   ///< of state and layout
  std::uint32_t replicas = 0;
  stage::layout::place at;    ///< of this peer
  std::size_t stages = 0;     ///< of its pipeline
  std::size_t successor = 0;  ///< the stage that it keeps besides its own; its own in a pipeline of one
  /// The whole flat buffer, before it is summed with others'; empty: nothing yet. In it, of the successor's stage, what the
  /// forwards that were repeated have given: that of the last stage makes its output layer's gradient at once.
  std::vector<float> gradients;
  /// Of a tied table, what the successor's stage has given: if this peer has both ends, its own is in `gradients`.
  std::vector<float> table;

  /// A byte for each micro-batch: of its own stage, then of its successor's.
  [[nodiscard]] virtual std::vector<std::byte> progress() const = 0;
};

template <class Tape>
class step_snapshot final : public any_step_snapshot {
 public:
  using unit = kept_unit<Tape>;

  step_snapshot(const stage::layout& l, const stage::layout::place& place) {
    at = place;
    replicas = static_cast<std::uint32_t>(l.replicas.size());
    stages = l.replicas[place.replica].assignments.size();
    successor = stage::successor(place.rank, stages);
    for (auto& row : rows_) row.resize(l.replicas[place.replica].micro_batches);
  }

  /// Whether this peer may compute that stage.
  [[nodiscard]] bool has(std::size_t stage) const noexcept { return stage == at.rank || stage == successor; }
  [[nodiscard]] unit& of(std::size_t stage, std::size_t micro_batch) {
    CAUSEWAY_EXPECT(has(stage));
    return rows_[stage == at.rank ? 0 : 1][micro_batch];
  }
  [[nodiscard]] std::size_t micro_batches() const noexcept { return rows_[0].size(); }

  [[nodiscard]] std::vector<std::byte> progress() const override {
    std::vector<std::byte> all;
    for (const auto& row : rows_) {
      for (const unit& u : row) all.push_back(static_cast<std::byte>(u.state));
    }
    return all;
  }

  /// The successor is there after all, and its own backwards count. True: this peer had made some in its place; what it has
  /// of that stage is forgotten, and its gradients must not stay in the sum.
  bool give_back() {
    const auto is_done = [](const unit& u) { return u.state == plan::unit_state::done; };
    if (successor == at.rank || std::none_of(rows_[1].begin(), rows_[1].end(), is_done)) return false;
    for (unit& u : rows_[1]) u = unit{};
    table.clear();
    return true;
  }

  /// Empty tapes, for the next forwards.
  std::vector<Tape> spare;

 private:
  std::array<std::vector<unit>, 2> rows_;  // its own stage, its successor's: [micro-batch]
};

/// What a peer says of its work, decoded: `stages` rows of `micro_batches`. errc::protocol, errc::corrupt.
CAUSEWAY_DECL [[nodiscard]] result<std::array<std::vector<plan::unit_state>, 2>> decode_progress(
    std::span<const std::byte> bytes, std::size_t micro_batches);

/// The work of everybody, by the transport's numbers; nothing of who has none. 2 bytes for each micro-batch of a pipeline,
/// from and to everybody.
CAUSEWAY_DECL result<std::vector<std::vector<std::byte>>> gather_progress(net::any_transport& transport,
                                                                          const net::message_id& id,
                                                                          const any_step_snapshot* own,
                                                                          std::uint32_t micro_batches,
                                                                          const collective::collective_options& options);

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#ifndef CAUSEWAY_COMPILED
#include <causeway/parallel/elastic/impl/step_snapshot.ipp>
#endif

#endif  // CAUSEWAY_PARALLEL_ELASTIC_STEP_SNAPSHOT_HPP
