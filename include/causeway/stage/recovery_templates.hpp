// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_TEMPLATES_HPP
#define CAUSEWAY_STAGE_RECOVERY_TEMPLATES_HPP

// Pipelines of different length, from templates that are worked out once: Oobleck (Jang et al., SOSP 2023). With f + 1
// pipelines at least, every block outlives f peers that are lost at once.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/stage_split.hpp>
#include <causeway/plan/template_choice.hpp>
#include <causeway/plan/templates.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// Equal on all peers: what is chosen must not depend on what a peer has seen.
struct templates_options {
  std::size_t failures = 1;    ///< f
  std::size_t most_peers = 8;  ///< that the run may have; more are spare
  plan::model_cost model{};    ///< of the blocks; none: all alike
  plan::template_peers kind{};
};

/// All peers together make the pipelines that take the least time for the global batch, which is split so that they end
/// together: plan::choose_templates. Peers keep as many of their blocks as can be. With fewer than (f + 1) n0 peers the run
/// waits for more.
class templates {
 public:
  static constexpr std::string_view name = "templates";
  static constexpr recovery_traits traits{};

  CAUSEWAY_DECL explicit templates(templates_options options = {});

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

 private:
  templates_options options_;
  std::optional<plan::template_set> set_;
};
static_assert(Recovery<templates>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_templates.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_TEMPLATES_HPP
