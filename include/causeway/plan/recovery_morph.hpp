// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_PLAN_RECOVERY_MORPH_HPP
#define CAUSEWAY_PLAN_RECOVERY_MORPH_HPP

// morph: Varuna (Athlur et al., EuroSys 2022). Whenever the number of peers changes, the number of stages and of pipelines
// is searched anew (varuna_search.hpp: with its schedule, which recomputes activations), the global batch stays, and all
// processes meet again and load the last checkpoint. A change that leaves the plan as it is and hits only spare peers is
// none.

#include <causeway/config/config.hpp>
#include <causeway/plan/recovery.hpp>
#include <causeway/plan/varuna_search.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace plan {

/// A job as Varuna's search takes it: each block is a cut-point, the embedding and the head are of the first and the last.
CAUSEWAY_DECL varuna_calibration calibration_of(const recovery_job& job);

class morph_recovery {
 public:
  /// `device_memory`: bytes for parameters and optimizer state, and the inputs that are kept to be recomputed from.
  CAUSEWAY_DECL explicit morph_recovery(const recovery_job& job,
                                        double device_memory = std::numeric_limits<double>::infinity());

  CAUSEWAY_DECL recovery_action changed(std::span<const std::uint32_t> lost, std::span<const std::uint32_t> come);

  recovery_action boundary() { return {}; }
  [[nodiscard]] double step_seconds() const { return now_.seconds; }
  [[nodiscard]] double checkpoint_bytes() const { return now_.bytes; }
  [[nodiscard]] std::size_t stages() const { return now_.stages; }
  [[nodiscard]] std::size_t replicas() const { return now_.replicas; }

 private:
  struct choice {
    std::size_t stages = 0, replicas = 0;
    double seconds = no_step;
    double bytes = 0;  // of the largest stage
  };

  CAUSEWAY_DECL choice best(std::size_t peers);

  const recovery_job* job_;
  varuna_calibration calibration_;
  varuna_options options_;
  std::vector<std::uint32_t> active_, spare_;
  choice now_;
  std::map<std::size_t, choice> known_;  // [peers]
};

}}}  // namespace causeway::CAUSEWAY_ABI::plan

#ifndef CAUSEWAY_COMPILED
#include <causeway/plan/impl/recovery_morph.ipp>
#endif

#endif  // CAUSEWAY_PLAN_RECOVERY_MORPH_HPP
