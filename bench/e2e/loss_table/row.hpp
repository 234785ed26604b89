// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_BENCH_E2E_LOSS_TABLE_ROW_HPP
#define CAUSEWAY_BENCH_E2E_LOSS_TABLE_ROW_HPP

// What the table and the targets are made of: named ways to train.

#include <functional>
#include <string>
#include <vector>

#include "run.hpp"

namespace losses {

struct row {
  std::string name;
  std::string settings;  ///< where they are not the preset's own
  std::function<outcome(const plan&)> run;
  bool in_table = true;  ///< else it is only there for a target
};

/// A row of a policy, by a function of the plan, and an inner optimizer.
template <class MakePolicy, class MakeInner>
row make_row(std::string name, std::string settings, MakePolicy policy, MakeInner inner, tweaks t = {}) {
  return {std::move(name), std::move(settings), [=](const plan& p) {
            return train(
                p, [&] { return policy(p); }, inner, t);
          }};
}

std::vector<row> local_update_rows();
std::vector<row> overlapped_rows();
std::vector<row> compressed_rows();
std::vector<row> compressed_every_step_rows();
std::vector<row> gossip_rows();
std::vector<row> asynchronous_rows();
std::vector<row> target_rows();

}  // namespace losses

#endif  // CAUSEWAY_BENCH_E2E_LOSS_TABLE_ROW_HPP
