// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/nesterov.hpp>

#include <causeway/optim/nesterov.hpp>
#include <causeway/optim/sgd.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/store_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::equal, causeway_test::set_gradients, causeway_test::store_of;

/// The state that `serialize` visits, moved from one optimizer to another.
struct carrier {
  std::vector<float> state;
  bool writing = true;
  void operator()(optim::state_buffer& s) {
    if (writing) {
      state.assign(s.data(), s.data() + s.size());
    } else {
      std::copy(state.begin(), state.end(), s.data());
    }
  }
};

/// Three steps there and here, then two more of each with the other's state.
template <class There, class Here>
void compare(const std::shared_ptr<cuda::engine>& engine, There on_device, Here on_host, optim::step_options how) {
  auto there = store_of(cuda::memory_of(*engine)), here = store_of();
  on_device.reset(there.length());
  on_host.reset(here.length());
  thread_pool pool{1};
  for (std::uint64_t step = 0; step < 5; ++step) {
    if (step == 3) {
      carrier up, down;
      on_device.serialize(up);
      on_host.serialize(down);
      CHECK(up.state == down.state);
      up.writing = down.writing = false;
      on_device.reset(there.length());
      on_host.reset(here.length());
      on_device.serialize(down);
      on_host.serialize(up);
    }
    set_gradients(there, step);
    set_gradients(here, step);
    on_device.step(pool, there.view(), how);
    on_host.step(pool, here.view(), how);
    CHECK(equal(there, here));
  }
  parameter_view flat = there.view(), flat_here = here.view();
  flat.segments = flat_here.segments = {};
  on_device.step(pool, flat, how);
  on_host.step(pool, flat_here, how);
  CHECK(equal(there, here));
}

}  // namespace

TEST_CASE("cuda Nesterov: the bits and the state of the CPU's, weight decay by kind included", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  const auto engine = causeway_test::engine_on_host(report);
  const optim::step_options how{.learning_rate = 0.7F, .gradient_scale = 0.5F};
  for (const float decay : {0.0F, 0.1F}) {
    const optim::nesterov_options o{.momentum = 0.9F, .weight_decay = decay};
    compare(engine, cuda::nesterov{engine, o}, optim::nesterov{o}, how);
    for (const float momentum : {0.0F, 0.8F}) {
      const optim::sgd_options plain{.momentum = momentum, .weight_decay = decay};
      compare(engine, cuda::sgd{engine, plain}, optim::sgd{plain}, how);
    }
  }
  CHECK(report->reserved == 0);
  CHECK(report->waits == 6 * 6);
}
