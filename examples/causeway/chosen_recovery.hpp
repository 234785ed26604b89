// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP
#define CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP

// What becomes of the stages of pipelines when peers come and go, chosen at run time.

#include <causeway/core/result.hpp>
#include <causeway/plan/routed_schedule.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>
#include <causeway/stage/recovery_morph.hpp>
#include <causeway/stage/recovery_proactive.hpp>
#include <causeway/stage/recovery_redundant.hpp>
#include <causeway/stage/recovery_reroute.hpp>
#include <causeway/stage/recovery_templates.hpp>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <variant>

#include "settings.hpp"

namespace app {

/// All but `redundant_forward`, `neighbour_init` and `swapped_neighbours`, which make trainers of other types.
class chosen_recovery {
 public:
  static constexpr std::string_view name = "chosen";
  static constexpr causeway::stage::recovery_traits traits{};

  chosen_recovery() = default;
  explicit chosen_recovery(const settings& s) {
    using namespace causeway::stage::recovery;
    const std::int64_t stages = stages_wanted(s);
    if (s.parallel.recovery == "regroup") it_ = regroup{stages};
    if (s.parallel.recovery == "redundant") it_ = redundant{stages};
    if (s.parallel.recovery == "templates") it_ = templates{{.most_peers = 2 * std::size_t{s.net.peers}}};
    if (s.parallel.recovery == "morph") it_ = morph{};
    if (s.parallel.recovery == "proactive") it_ = proactive{};
    if (s.parallel.recovery == "reroute") it_ = reroute{stages};
  }

  causeway::result<causeway::stage::layout> arrange(const causeway::stage::cluster_snapshot& g) {
    return std::visit([&](auto& r) { return r.arrange(g); }, it_);
  }
  /// Of a layout with stages without a peer, which `reroute` alone makes.
  [[nodiscard]] causeway::result<causeway::plan::routed_schedule> order(const causeway::stage::layout& l) const {
    return std::get<causeway::stage::recovery::reroute>(it_).order(l);
  }
  [[nodiscard]] std::uint64_t interval() const {
    return std::visit([](const auto& r) { return r.interval(); }, it_);
  }

 private:
  std::variant<causeway::stage::recovery::regroup, causeway::stage::recovery::redundant,
               causeway::stage::recovery::templates, causeway::stage::recovery::morph, causeway::stage::recovery::proactive,
               causeway::stage::recovery::reroute>
      it_;
};
static_assert(causeway::stage::Rerouting<chosen_recovery>);

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_CHOSEN_RECOVERY_HPP
