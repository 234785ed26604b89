// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_PARALLEL_ELASTIC_MOVEMENT_POLICIES_HPP
#define CAUSEWAY_TESTS_PARALLEL_ELASTIC_MOVEMENT_POLICIES_HPP

// Policies whose rounds follow how far the whole model moves, as pipelines of two stages take them.

#include <causeway/presets/local_updates.hpp>
#include <causeway/presets/overlapped.hpp>

namespace support {

/// Rounds of one step, then of two, with a rate that falls in each of them. In the third round the whole model moves by
/// 0.0425, its stages by 0.0420 and 0.0431: one of them would decide otherwise.
struct co_learning {
  [[nodiscard]] static auto policy() {
    return make(causeway::presets::co_learning_options{
        {.local_steps = 1, .most = 3, .factor = 2, .tolerance = 0.0428, .cycle_end = 0.5F}});
  }
};
/// A fragment in every second step; which one goes by what moved most.
struct cocodc {
  [[nodiscard]] static auto policy() {
    return make(
        causeway::presets::cocodc_options{.local_steps = 8, .exchanges = 4, .blocks_in_fragment = 2, .overlap_steps = 1});
  }
};

}  // namespace support

#endif  // CAUSEWAY_TESTS_PARALLEL_ELASTIC_MOVEMENT_POLICIES_HPP
