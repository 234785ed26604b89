// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP

// An activation codec chosen at run time, and where a peer of a pipeline is, so that the program needs no trainer type for
// each pair.

#include <causeway/core/hash.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/core/thread_pool.hpp>
#include <causeway/parallel/pipeline/pipeline_place.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/adaptive_top_k.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/subspace.hpp>
#include <causeway/stage/subspace_basis.hpp>
#include <causeway/stage/subspace_pieces.hpp>
#include <causeway/tensor/parameters.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "chosen_codec.hpp"
#include "chosen_inner.hpp"
#include "chosen_model.hpp"
#include "chosen_schedule.hpp"
#include "compose.hpp"
#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

/// One of `Kinds`, by name: what a name means that none of them is, `validate` has refused.
template <class... Kinds>
class chosen_from {
 public:
  static constexpr std::string_view name = "chosen";
  static constexpr causeway::stage::activation_traits traits{.stateful = (Kinds::traits.stateful || ...),
                                                             .uses_base = (Kinds::traits.uses_base || ...)};
  static constexpr std::uint32_t state_version = 1;

  /// `ratio`: of top_k. `space`: of subspace.
  explicit chosen_from(const std::string& which = "none", double ratio = 100, causeway::stage::subspace_options space = {})
      : which_{causeway::hash_text(which)} {
    using namespace causeway::stage;
    if (which == "delta_int4") {
      take<delta<4, 8>>();
    } else if (which == "delta_int2") {
      take<delta<2, 8>>();
    } else if (which == "top_k") {
      take<adaptive_top_k<>>(adaptive_top_k_options{.ratio = ratio});
    } else if (which == "subspace") {
      take<subspace<>>(space);
    } else if (which != "none") {
      take<coded<chosen_codec>>(chosen_codec{which}, chosen_codec{which});
    }
  }

  [[nodiscard]] std::size_t most_bytes(const causeway::stage::crossing& c) const {
    return std::visit([&](const auto& a) { return a.most_bytes(c); }, it_);
  }
  causeway::result<std::size_t> encode(causeway::thread_pool& pool, const causeway::stage::crossing& c,
                                       std::span<const float> values, std::span<std::byte> room) {
    return std::visit([&](auto& a) { return a.encode(pool, c, values, room); }, it_);
  }
  causeway::result<void> decode(causeway::thread_pool& pool, const causeway::stage::crossing& c,
                                std::span<const std::byte> bytes, std::span<float> values) {
    return std::visit([&](auto& a) { return a.decode(pool, c, bytes, values); }, it_);
  }
  void begin_step() {
    std::visit([](auto& a) { a.begin_step(); }, it_);
  }
  causeway::result<void> commit_step() {
    return std::visit([](auto& a) { return a.commit_step(); }, it_);
  }
  [[nodiscard]] std::uint64_t agreement() const {
    return causeway::mix(which_, std::visit([](const auto& a) { return a.agreement(); }, it_));
  }
  [[nodiscard]] bool needs_base() const {
    return std::visit([](const auto& a) { return causeway::stage::needs_base(a); }, it_);
  }
  causeway::result<void> leave_outside(causeway::thread_pool& pool, std::int64_t width, std::span<float> rows) {
    return std::visit(
        [&](auto& a) -> causeway::result<void> {
          if constexpr (causeway::stage::UsesBase<std::remove_reference_t<decltype(a)>>) {
            return a.leave_outside(pool, width, rows);
          }
          return {};
        },
        it_);
  }
  [[nodiscard]] bool remembers() const {
    return std::visit([](const auto& a) { return causeway::stage::remembers(a); }, it_);
  }
  template <class Archive>
  void serialize(Archive& ar) {
    std::visit([&ar](auto& a) { a.serialize(ar); }, it_);
  }

 private:
  template <class Kind, class... Arguments>
  void take(Arguments... arguments) {
    if constexpr ((std::is_same_v<Kind, Kinds> || ...)) it_ = Kind{std::move(arguments)...};
  }

  std::variant<Kinds...> it_;
  std::uint64_t which_ = 0;
};

/// Of stages that never wait.
using late_activations =
    chosen_from<causeway::stage::plain, causeway::stage::coded<chosen_codec>, causeway::stage::delta<4, 8>,
                causeway::stage::delta<2, 8>, causeway::stage::adaptive_top_k<>>;
static_assert(causeway::stage::ActivationCodec<late_activations>);
/// Of those that make a step together.
using chosen_activations =
    chosen_from<causeway::stage::plain, causeway::stage::coded<chosen_codec>, causeway::stage::delta<4, 8>,
                causeway::stage::delta<2, 8>, causeway::stage::adaptive_top_k<>, causeway::stage::subspace<>>;
static_assert(causeway::stage::UsesBase<chosen_activations>);
/// Where another peer may take the next micro-batch.
using forgetful_activations =
    chosen_from<causeway::stage::plain, causeway::stage::coded<chosen_codec>, causeway::stage::subspace<>>;
static_assert(causeway::stage::UsesBase<forgetful_activations>);

/// Of a model of that width.
[[nodiscard]] inline causeway::stage::subspace_options subspace_of(const settings& s, std::int64_t width) {
  const std::int64_t usual = std::min<std::int64_t>(64, (width + 1) / 2);
  return {.rank = s.parallel.directions == 0 ? usual : s.parallel.directions, .seed = s.run.seed};
}

/// What crosses between stages of such a model whose peers come and go.
[[nodiscard]] inline forgetful_activations forgetful_of(const settings& s, std::int64_t width) {
  return forgetful_activations{s.parallel.codec, s.parallel.ratio, subspace_of(s, width)};
}

/// The optimizer of stages. Where a subspace crosses between them, the model begins in it, with parts that it holds later,
/// too, and the optimizer keeps it there. A run that is resumed gets parameters that lie in it.
[[nodiscard]] inline causeway::result<chosen_inner> inner_of_stages(const settings& s, chosen_model& model) {
  namespace stage = causeway::stage;
  if (s.parallel.codec != "subspace") return inner_of(s);
  const auto space = subspace_of(s, model.width());
  CAUSEWAY_ASSIGN(stage::subspace_basis basis, stage::subspace_basis::random(space.seed, model.width(), space.rank));
  model.adjust_initial(
      [basis, writers = stage::residual_writers()](causeway::thread_pool& pool, causeway::parameter_store& all) {
        stage::confine(pool, all, basis, writers);
      });
  return chosen_inner{s.train.weight_decay, std::move(basis)};
}

/// Where copies of the stages are.
[[nodiscard]] inline std::string block_folder(const settings& s) {
  return s.parallel.store.empty() ? run_folder(s) + "/blocks" : s.parallel.store;
}

[[nodiscard]] inline causeway::parallel::pipeline_options pipeline_options_of(const settings& s) {
  return {.micro_batches = s.train.micro_batches,
          .ranks = s.parallel.stages,
          .placement = {},
          .cuts = s.parallel.cuts,
          .random_routes = s.parallel.random_routes};
}

/// The blocks of a peer.
[[nodiscard]] inline causeway::result<causeway::nn::model_part> part_of_peer(const settings& s, std::uint32_t peer) {
  const auto options = pipeline_options_of(s);
  CAUSEWAY_ASSIGN(const auto place, causeway::parallel::place_in(options, peer, s.net.peers));
  const chosen_schedule schedule{s.parallel.schedule};
  return causeway::parallel::part_of(options, place, s.model.layers, schedule.chunks(), schedule.path());
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP
