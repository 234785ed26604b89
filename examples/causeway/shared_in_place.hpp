// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP
#define CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP

// What to evaluate where a peer's live parameters are not what the run has come to.

#include <algorithm>
#include <span>
#include <vector>

namespace app {

/// Has the shared parameters stand in for the live ones while it lives, where a policy has such.
template <class Trainer>
class shared_in_place {
 public:
  explicit shared_in_place(Trainer& trainer) : trainer_{trainer} {
    const auto shared = of(trainer);
    const auto live = trainer.context().parameters();
    if (shared.size() != live.size()) return;
    kept_.assign(live.begin(), live.end());
    put(shared);
  }
  shared_in_place(const shared_in_place&) = delete;
  shared_in_place& operator=(const shared_in_place&) = delete;
  ~shared_in_place() {
    if (!kept_.empty()) put(kept_);
  }

  /// Empty where the live parameters are all there is.
  static std::span<const float> of(Trainer& trainer) {
    if constexpr (requires { trainer.comm().shared_parameters(); }) return trainer.comm().shared_parameters();
    return {};
  }

 private:
  void put(std::span<const float> values) {
    std::copy(values.begin(), values.end(), trainer_.context().parameters().begin());
    trainer_.context().parameters_changed();
  }

  Trainer& trainer_;
  std::vector<float> kept_;
};

}  // namespace app

#endif  // CAUSEWAY_EXAMPLES_SHARED_IN_PLACE_HPP
