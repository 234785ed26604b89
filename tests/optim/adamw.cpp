// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/adamw.hpp>

#include <causeway/kernels/convert.hpp>

#include "golden/optimizers.hpp"
#include "support/catch.hpp"
#include "support/optimizer_cases.hpp"

using namespace causeway;
using namespace causeway::optim;

TEST_CASE("adamw: ten steps end where PyTorch's do", "[optim][fast]") {
  for (const unsigned threads : {1U, 3U}) {
    CHECK(test::golden_error(test::golden_run(adamw{}, threads), golden::adamw) < 1e-6);
  }
}

TEST_CASE("adamw: goes on from a checkpoint as if there had been none", "[optim][fast]") {
  CHECK(test::survives_a_checkpoint<adamw>(adamw_options{}));
}

TEST_CASE("adamw: reset forgets, and a step leaves gradients alone", "[optim][fast]") {
  CHECK(test::reset_forgets<adamw>());
}

TEST_CASE("adamw: the first step moves every value by the rate, whatever the gradient's size", "[optim][fast]") {
  thread_pool pool;
  std::vector<float> values(64, 1.0F), gradients(64);
  for (std::size_t i = 0; i < 64; ++i)
    gradients[i] = (i % 2 == 0 ? 1.0F : -1.0F) * std::pow(10.0F, static_cast<float>(i % 7) - 3.0F);
  adamw optimizer{{.weight_decay = 0.0F}};
  optimizer.reset(64);
  optimizer.step(pool, {values, gradients, {}}, {.learning_rate = 0.125F});
  for (std::size_t i = 0; i < 64; ++i) CHECK(values[i] == Approx(i % 2 == 0 ? 0.875F : 1.125F).epsilon(1e-5));
}

TEST_CASE("adamw: bf16 copies that are written along are the new values, rounded, and cost no bit of these",
          "[optim][fast]") {
  kernels::use_bf16();
  thread_pool pool{2};
  auto alone = test::golden_parameters(), along = test::golden_parameters();
  std::vector<bf16> copies(static_cast<std::size_t>(along.length())), rounded(copies.size());
  along.keep_copies(copies.data());
  adamw one, other;
  one.reset(alone.length());
  other.reset(along.length());
  for (auto* const store : {&alone, &along}) {
    test::fill(*store, store->values(), 1);
    test::fill(*store, store->gradients(), 2);
  }
  CHECK_FALSE(along.has_copies());
  one.step(pool, alone.view(), {.learning_rate = 1e-2F});
  other.step(pool, along.view_with_copies(), {.learning_rate = 1e-2F});
  along.touch();
  CHECK(std::equal(alone.values().begin(), alone.values().end(), along.values().begin()));
  kernels::convert(pool, along.values().data(), rounded.data(), along.length());
  CHECK(copies == rounded);
  CHECK(along.has_copies());
  along.touch();  // somebody wrote values
  CHECK_FALSE(along.has_copies());
  other.step(pool, along.view(), {.learning_rate = 1e-2F});
  along.touch();
  CHECK_FALSE(along.has_copies());
}

TEST_CASE("adamw: a large model's update is the same bits for any number of threads", "[optim][fast]") {
  CHECK(test::same_bits_for_any_threads<adamw>());
}

TEST_CASE("adam state: moments in the layout of the parameters, which begin anew with the steps", "[optim][fast]") {
  optim::detail::adam_state<adam_clock> state;
  state.reset(5);
  state.clock.advance({}, {});
  state.second.data()[4] = 2;
  REQUIRE(state.moments().size() == 2);
  CHECK(state.moments()[0].data() == state.first.data());
  CHECK(state.moments()[1].size() == 5);
  CHECK(state.moments()[1][4] == 2);
  state.reset(5);
  CHECK(state.moments()[1][4] == 0);
  CHECK(state.clock.steps() == 0);
}
