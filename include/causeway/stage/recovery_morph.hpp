// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_STAGE_RECOVERY_MORPH_HPP
#define CAUSEWAY_STAGE_RECOVERY_MORPH_HPP

// Another number of stages and pipelines whenever the number of peers changes: Varuna's job morphing (Athlur et al.,
// EuroSys 2022). The global batch stays, so the optimisation problem does; what peers have is copied from peer to peer,
// where the paper loads a checkpoint.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/nn/model_part.hpp>
#include <causeway/plan/varuna_search.hpp>
#include <causeway/stage/layout.hpp>
#include <causeway/stage/recovery.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace stage { namespace recovery {

/// Equal on all peers.
struct morph_options {
  /// Of micro-batches as the run has them: one size. A cut-point is a block, with what the first or last stage has besides.
  /// None: all blocks alike, links that cost nothing.
  plan::varuna_calibration calibration{};
  double device_memory = std::numeric_limits<double>::infinity();  ///< bytes
};

/// The quickest shape for the peers that are there: plan::plan_varuna. Who is left over is spare.
class morph {
 public:
  static constexpr std::string_view name = "morph";
  static constexpr recovery_traits traits{.cut_alike = true};

  CAUSEWAY_DECL explicit morph(morph_options options = {});

  /// It does not look back.
  [[nodiscard]] std::uint64_t interval() const noexcept { return 0; }

  CAUSEWAY_DECL result<layout> arrange(const cluster_snapshot& g);

 private:
  morph_options options_;
};
static_assert(Recovery<morph>);

}}}}  // namespace causeway::CAUSEWAY_ABI::stage::recovery

#ifndef CAUSEWAY_COMPILED
#include <causeway/stage/impl/recovery_morph.ipp>
#endif

#endif  // CAUSEWAY_STAGE_RECOVERY_MORPH_HPP
