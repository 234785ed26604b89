// SPDX-License-Identifier: Apache-2.0
#include <causeway/cuda/adamw.hpp>

#include <causeway/optim/adamw.hpp>

#include "cuda/host_queue.hpp"
#include "cuda/store_case.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::equal, causeway_test::set_gradients, causeway_test::store_of;

/// Keeps what `serialize` visits, and gives it back.
struct copier {
  std::vector<float> state;
  optim::adam_clock clock;
  bool writing = true;

  void operator()(auto& all) { all.serialize(*this); }
  void operator()(optim::state_buffer& a, optim::state_buffer& b, optim::adam_clock& c) {
    if (writing) {
      state.assign(a.data(), a.data() + a.size());
      state.insert(state.end(), b.data(), b.data() + b.size());
      clock = c;
    } else {
      std::copy_n(state.begin(), a.size(), a.data());
      std::copy_n(state.begin() + a.size(), b.size(), b.data());
      c = clock;
    }
  }
};

}  // namespace

TEST_CASE("cuda AdamW: the bits of the CPU's, weight decay by kind included", "[cuda][fast]") {
  const auto report = std::make_shared<causeway_test::queue_report>();
  {
    const auto engine = causeway_test::host_engine(report);
    auto there = store_of(cuda::memory_of(*engine)), here = store_of();
    cuda::adamw on_device{engine};
    optim::adamw on_host;
    on_device.reset(there.length());
    on_host.reset(here.length());
    CHECK(report->reserved == 4);  // values, gradients, two moments
    thread_pool pool{1};
    for (std::uint64_t step = 0; step < 5; ++step) {
      set_gradients(there, step);
      set_gradients(here, step);
      on_device.step(pool, there.view(), {.learning_rate = 1e-2F, .gradient_scale = 0.5F});
      on_host.step(pool, here.view(), {.learning_rate = 1e-2F, .gradient_scale = 0.5F});
    }
    CHECK(equal(there, here));
    CHECK(report->waits == 5);  // whoever reads the parameters next may
  }
  CHECK(report->reserved == 0);
}

TEST_CASE("cuda AdamW: a model of any number of pieces", "[cuda][fast]") {
  for (const int pieces : {511, 512, 513, 1024, 1100}) {
    const auto made = [&](const memory_source& source) {
      parameter_store s;
      for (int i = 0; i < pieces; ++i) {
        s.add(std::to_string(i), i % 2 == 0 ? parameter_kind::vector : parameter_kind::matrix, 1, 1 + i % 20);
      }
      s.allocate(source);
      return s;
    };
    const auto engine = causeway_test::host_engine();
    auto there = made(cuda::memory_of(*engine)), here = made({});
    thread_pool pool{1};
    for (auto* store : {&there, &here}) {
      std::fill(store->values().begin(), store->values().end(), 1.0F);
      set_gradients(*store, 3);
    }
    cuda::adamw on_device{engine};
    optim::adamw on_host;
    on_device.reset(there.length());
    on_host.reset(here.length());
    on_device.step(pool, there.view(), {});
    on_host.step(pool, here.view(), {});
    INFO(pieces);
    CHECK(equal(there, here));
  }
}

TEST_CASE("cuda AdamW: what the CPU's saved goes on with the same bits", "[cuda][fast]") {
  const auto engine = causeway_test::host_engine();
  auto there = store_of(cuda::memory_of(*engine)), here = store_of();
  optim::adamw on_host;
  on_host.reset(here.length());
  thread_pool pool{1};
  set_gradients(here, 1);
  on_host.step(pool, here.view(), {});
  cuda::adamw on_device{engine};
  on_device.reset(there.length());
  copier c;
  on_host.serialize(c);
  c.writing = false;
  on_device.serialize(c);
  std::copy(here.values().begin(), here.values().end(), there.values().begin());
  set_gradients(here, 2);
  set_gradients(there, 2);
  on_host.step(pool, here.view(), {});
  on_device.step(pool, there.view(), {});
  CHECK(equal(there, here));
  CHECK(on_device.steps() == 2);
}
