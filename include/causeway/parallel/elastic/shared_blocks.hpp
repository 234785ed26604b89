// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PARALLEL_ELASTIC_SHARED_BLOCKS_HPP
#define CAUSEWAY_PARALLEL_ELASTIC_SHARED_BLOCKS_HPP

// What a block consists of where pipelines move blocks between peers. Where replicas take steps of their own it is not the
// live parameters, which are a replica's, but the shared ones, with the state of both optimizers: so a block can be given
// away in the middle of a round. Where they make all steps together the live parameters are what is shared.

#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/parallel/elastic/step_group.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace parallel {

/// A context for block_ownership and part_change in which all that a block takes along are rows: the shared parameters, the
/// inner optimizer's moments, which the new holder goes on with, and what the communication policy keeps. Of a policy that
/// keeps no rows: the live parameters and the moments.
template <class Context>
class shared_blocks {
 public:
  shared_blocks(Context& ctx, const exchange_state& state) : ctx_{ctx}, state_{state} {}

  [[nodiscard]] auto& model() { return ctx_.model(); }
  [[nodiscard]] std::span<float> parameters() {
    const auto kept = rows();
    return kept.empty() ? ctx_.parameters() : kept.front().pieces.front();
  }
  void parameters_changed() { ctx_.parameters_changed(); }

  struct optimizers {
    std::vector<parameter_row> rows;
    std::size_t own = 0;  ///< the first are the inner optimizer's; the others the communication policy's
    [[nodiscard]] std::vector<parameter_row> moments() const { return rows; }
  };
  [[nodiscard]] optimizers inner() {
    optimizers all;
    for (const std::span<float> moment : ctx_.inner().moments()) all.rows.push_back({{moment}});
    all.own = all.rows.size();
    const auto kept = rows();
    if (!kept.empty()) all.rows.insert(all.rows.end(), kept.begin() + 1, kept.end());
    return all;
  }

  /// As training_context's; the communication policy's rows follow.
  result<void> hold(nn::model_part part, std::uint64_t steps) {
    const auto segments = model().parameters().segments();
    const std::vector<parameter_segment> before{segments.begin(), segments.end()};
    CAUSEWAY_TRY(ctx_.hold(std::move(part), steps));
    return state_.divide ? state_.divide(before) : result<void>{};
  }

  /// The live parameters become the shared ones, of that path where there are some.
  void begin_from_shared(std::optional<std::uint32_t> path = {}) {
    const auto shared = parameters();
    if (path) {
      state_.parameters_of(*path, ctx_.parameters());
    } else {
      std::copy(shared.begin(), shared.end(), ctx_.parameters().begin());
    }
    parameters_changed();
  }

 private:
  [[nodiscard]] std::vector<parameter_row> rows() const {
    return state_.rows ? state_.rows() : std::vector<parameter_row>{};
  }

  Context& ctx_;
  const exchange_state& state_;
};

/// While it is there the live parameters are what is shared of a path through a model of modules; as they were, where none
/// is named. Nothing else may change them meanwhile.
template <class Context>
class path_in_place {
 public:
  path_in_place(Context& ctx, const exchange_state& state, std::optional<std::uint32_t> path) : ctx_{ctx} {
    if (!path || !state.parameters_of) return;
    kept_.assign(ctx_.parameters().begin(), ctx_.parameters().end());
    state.parameters_of(*path, ctx_.parameters());
    ctx_.parameters_changed();
  }
  path_in_place(const path_in_place&) = delete;
  path_in_place& operator=(const path_in_place&) = delete;
  ~path_in_place() {
    if (kept_.empty()) return;
    std::copy(kept_.begin(), kept_.end(), ctx_.parameters().begin());
    ctx_.parameters_changed();
  }

 private:
  Context& ctx_;
  std::vector<float> kept_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::parallel

#endif  // CAUSEWAY_PARALLEL_ELASTIC_SHARED_BLOCKS_HPP
