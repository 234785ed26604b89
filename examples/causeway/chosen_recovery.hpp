// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP

// What becomes of the stages of pipelines when peers come and go, chosen at run time.

#include <causeway/core/result.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_neighbour.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_templates.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "settings.hpp"

namespace app {

inline causeway::stage::neighbour_options neighbours_of(const settings& s) {
  using causeway::stage::neighbour_weights;
  return {.stages = stages_wanted(s),
          .rate_factor = s.parallel.neighbour_rate,
          .weights = s.parallel.neighbour_weights == "clipped_norms" ? neighbour_weights::clipped_norms
                                                                     : neighbour_weights::squared_norms};
}

/// One of `Recoveries`; where none of them is chosen, the first.
template <class... Recoveries>
class chosen_among {
  template <class R>
  static constexpr bool has = (std::is_same_v<R, Recoveries> || ...);

 public:
  static constexpr std::string_view name = "chosen";
  static constexpr causeway::stage::recovery_traits traits{.lost = causeway::stage::lost_blocks::neighbours,
                                                           .cut_alike = (Recoveries::traits.cut_alike && ...)};

  chosen_among() = default;
  explicit chosen_among(const settings& s) {
    using namespace causeway::stage::recovery;
    const std::int64_t stages = stages_wanted(s);
    take(s, regroup{stages});
    take(s, morph{});
    take(s, proactive{});
    take(s, neighbour_init{neighbours_of(s)});
    take(s, redundant{stages});
    take(s, templates{{.most_peers = 2 * std::size_t{s.net.peers}}});
    take(s, reroute{stages});
  }

  causeway::result<causeway::stage::layout> arrange(const causeway::stage::cluster_snapshot& g) {
    return std::visit([&](auto& r) { return r.arrange(g); }, it_);
  }
  /// Of a layout with stages without a peer, which `reroute` alone makes.
  [[nodiscard]] causeway::result<causeway::plan::routed_schedule> order(const causeway::stage::layout& l) const
      requires(has<causeway::stage::recovery::reroute>) {
    return std::get<causeway::stage::recovery::reroute>(it_).order(l);
  }
  [[nodiscard]] std::uint64_t interval() const {
    return std::visit([](const auto& r) { return r.interval(); }, it_);
  }
  /// What `neighbour_init` alone makes up.
  [[nodiscard]] bool makes_up() const noexcept { return neighbours() != nullptr; }
  [[nodiscard]] std::vector<causeway::stage::made_up_block> made_up(const causeway::stage::cluster_snapshot& g) const {
    return std::visit([&](const auto& r) { return causeway::stage::made_up_by(r, g); }, it_);
  }
  [[nodiscard]] float rate_factor() const noexcept { return makes_up() ? neighbours()->rate_factor() : 1.0F; }
  [[nodiscard]] std::uint64_t agreement() const noexcept { return makes_up() ? neighbours()->agreement() : it_.index(); }

 private:
  template <class Recovery>
  void take(const settings& s, Recovery r) {
    if constexpr (has<Recovery>) {
      if (s.parallel.recovery == Recovery::name) it_ = std::move(r);
    }
  }
  [[nodiscard]] const causeway::stage::recovery::neighbour_init* neighbours() const noexcept {
    using causeway::stage::recovery::neighbour_init;
    if constexpr (has<neighbour_init>) return std::get_if<neighbour_init>(&it_);
    return nullptr;
  }

  std::variant<Recoveries...> it_;
};

/// Those whose pipelines are cut alike, for whatever is exchanged; with the one that lets micro-batches take detours, for
/// gradients; and those that cut them apart. `redundant_forward` and `swapped_neighbours` make trainers of other types.
using chosen_alike = chosen_among<causeway::stage::recovery::regroup, causeway::stage::recovery::morph,
                                  causeway::stage::recovery::proactive, causeway::stage::recovery::neighbour_init>;
using chosen_for_gradients =
    chosen_among<causeway::stage::recovery::regroup, causeway::stage::recovery::morph, causeway::stage::recovery::proactive,
                 causeway::stage::recovery::reroute, causeway::stage::recovery::neighbour_init>;
using chosen_apart = chosen_among<causeway::stage::recovery::redundant, causeway::stage::recovery::templates>;
static_assert(causeway::stage::Rerouting<chosen_for_gradients> && !causeway::stage::Rerouting<chosen_alike>);
static_assert(causeway::stage::cut_apart<chosen_apart> && !causeway::stage::cut_apart<chosen_for_gradients>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP
