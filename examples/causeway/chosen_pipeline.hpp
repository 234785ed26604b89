// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP

// A schedule and an activation codec chosen at run time, so that the program needs no trainer type for each pair.

#include <causeway/core/result.hpp>
#include <causeway/parallel/pipeline_place.hpp>
#include <causeway/plan/schedule.hpp>
#include <causeway/plan/schedule_cursor.hpp>
#include <causeway/stage/activation.hpp>
#include <causeway/stage/delta.hpp>
#include <causeway/stage/schedules.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "chosen_codec.hpp"
#include "settings.hpp"
#include "text_codec.hpp"

namespace app {

class chosen_schedule {
 public:
  static constexpr std::string_view name = "chosen";

  explicit chosen_schedule(std::string_view which = "1f1b") {
    using namespace causeway::stage;
    if (which == "gpipe") it_ = gpipe{};
    if (which == "zero_bubble") it_ = zero_bubble{};
    if (which == "zero_bubble_h2") it_ = zero_bubble_h2{};
    if (which == "interleaved") it_ = interleaved<2>{};
    if (which == "varuna") it_ = varuna{};
    if (which == "eager") it_ = causeway::stage::opportunistic<one_f_one_b>{};
  }

  [[nodiscard]] std::uint32_t chunks() const {
    return std::visit([](const auto& s) { return s.chunks(); }, it_);
  }
  [[nodiscard]] std::uint32_t room() const {
    return std::visit([](const auto& s) { return s.room(); }, it_);
  }
  [[nodiscard]] causeway::plan::run_order order() const {
    return std::visit([](const auto& s) { return s.order(); }, it_);
  }
  [[nodiscard]] causeway::result<causeway::plan::schedule> make(std::uint32_t ranks, std::uint32_t micro_batches) const {
    return std::visit([&](const auto& s) { return s.make(ranks, micro_batches); }, it_);
  }

 private:
  std::variant<causeway::stage::one_f_one_b, causeway::stage::gpipe, causeway::stage::zero_bubble,
               causeway::stage::zero_bubble_h2, causeway::stage::interleaved<2>, causeway::stage::varuna,
               causeway::stage::opportunistic<causeway::stage::one_f_one_b>>
      it_;
};
static_assert(causeway::stage::Schedule<chosen_schedule>);

/// One of `Kinds`, by name: what a name means that none of them is, `validate` has refused.
template <class... Kinds>
class chosen_from {
 public:
  static constexpr std::string_view name = "chosen";
  static constexpr causeway::stage::activation_traits traits{.stateful = (Kinds::traits.stateful || ...)};
  static constexpr std::uint32_t state_version = 1;

  explicit chosen_from(const std::string& which = "none") : which_{causeway::hash_text(which)} {
    using namespace causeway::stage;
    if (which == "delta_int4") {
      take<delta<4, 8>>();
    } else if (which == "delta_int2") {
      take<delta<2, 8>>();
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
  [[nodiscard]] std::uint64_t agreement() const { return which_; }
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

using chosen_activations = chosen_from<causeway::stage::plain, causeway::stage::coded<chosen_codec>,
                                       causeway::stage::delta<4, 8>, causeway::stage::delta<2, 8>>;
static_assert(causeway::stage::ActivationCodec<chosen_activations>);
/// Where another peer may take the next micro-batch.
using forgetful_activations = chosen_from<causeway::stage::plain, causeway::stage::coded<chosen_codec>>;
static_assert(causeway::stage::ActivationCodec<forgetful_activations>);

/// Where copies of the stages are.
[[nodiscard]] inline std::string block_folder(const settings& s) {
  return s.parallel.store.empty() ? run_folder(s) + "/blocks" : s.parallel.store;
}

/// Peers of one pipeline.
[[nodiscard]] inline std::uint32_t ranks_of(const settings& s) {
  return s.parallel.ranks == 0 ? s.net.peers : s.parallel.ranks;
}

[[nodiscard]] inline causeway::parallel::pipeline_options pipeline_options_of(const settings& s) {
  return {.micro_batches = s.train.micro_batches, .ranks = s.parallel.ranks, .placement = {}, .cuts = s.parallel.cuts};
}

/// The blocks of a peer.
[[nodiscard]] inline causeway::result<causeway::nn::model_part> part_of_peer(const settings& s, std::uint32_t peer) {
  const auto options = pipeline_options_of(s);
  CAUSEWAY_ASSIGN(const auto place, causeway::parallel::place_in(options, peer, s.net.peers));
  return causeway::parallel::part_of(options, place, s.model.layers, chosen_schedule{s.parallel.schedule}.chunks());
}

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_PIPELINE_HPP
