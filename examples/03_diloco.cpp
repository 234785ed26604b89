// SPDX-License-Identifier: Apache-2.0
// ctest: 60
// Four peers train the same model under several policies: what each costs in bytes, and what it gives. DiLoCo talks every
// ten steps here; its authors do after 500.
// usage: 03_diloco [STEPS]
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/periodic.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/compress/fp16.hpp>
#include <causeway/optim/sgd.hpp>

#include <cstdlib>

#include "several_peers.hpp"

using namespace causeway;

result<bool> compare(int steps) {
  CAUSEWAY_ASSIGN(const ending each, train_four(
                                         "every step", [] { return comm::every_step<>{}; }, steps));
  CAUSEWAY_TRY(train_four(
      "every step, fp16", [] { return comm::every_step<compress::fp16>{}; }, steps));
  const auto local_sgd = [] { return comm::periodic<optim::sgd>{{.local_steps = 10, .outer_learning_rate = 1.0F}}; };
  CAUSEWAY_TRY(train_four("local SGD, 10 steps", local_sgd, steps));
  const auto diloco = [] { return comm::periodic<>{{.local_steps = 10}}; };
  CAUSEWAY_ASSIGN(const ending seldom, train_four("DiLoCo, 10 steps", diloco, steps));
  const auto in_bytes = [] { return comm::periodic<optim::nesterov, compress::block_int8>{{.local_steps = 10}}; };
  CAUSEWAY_ASSIGN(const ending little, train_four("DiLoCo, 10 steps, int8", in_bytes, steps));
  return seldom.bytes < each.bytes / 8 && little.bytes < seldom.bytes / 2 && seldom.loss < each.loss + 1;
}

int main(int argc, char** argv) { return status_of(compare(argc > 1 ? std::atoi(argv[1]) : 200)); }
