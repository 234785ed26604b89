// SPDX-License-Identifier: Apache-2.0
#include <causeway/optim/divisible.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/optim/lamb.hpp>
#include <causeway/optim/sgd.hpp>
#include <causeway/optim/sparse_steps.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"

namespace causeway {
namespace {

static_assert(optim::Divisible<optim::adamw> && optim::Divisible<optim::lamb> && optim::Divisible<optim::sgd>);

parameter_store store_of(const std::vector<int>& blocks) {
  parameter_store store;
  for (const int b : blocks) store.add("block" + std::to_string(b), parameter_kind::matrix, 1, 16, b);
  store.allocate();
  return store;
}

void step(auto& inner, parameter_store& store, thread_pool& pool) {
  for (const auto& s : store.segments()) {
    for (std::int64_t i = 0; i < s.size(); ++i) {
      store.gradients()[static_cast<std::size_t>(s.offset + i)] =
          static_cast<float>(s.block + 1) + 0.25F * static_cast<float>(i);
    }
  }
  inner.step(pool, store.view(), {.learning_rate = 0.1F});
}

std::uint64_t steps_of(const auto& inner) {
  if constexpr (requires { inner.steps(); }) return inner.steps();
  return 5;  // it counts none
}

template <class Inner, class... Options>
void check_part_that_moves(Options... options) {
  thread_pool pool{1};
  parameter_store whole = store_of({0, 1, 2});
  parameter_store twin = store_of({0, 1, 2});
  Inner inner{options...}, other{options...};
  inner.reset(whole.length());
  other.reset(whole.length());
  for (int i = 0; i < 5; ++i) step(inner, whole, pool);
  for (int i = 0; i < 5; ++i) step(other, twin, pool);
  // Blocks 2 and 0 leave; 1 stays, 3 is new. Block 1's parameters go along by hand.
  parameter_store part = store_of({1, 3});
  for_common_pieces(whole.segments(), part.segments(), [&](const auto& old, const auto& now) {
    for (std::int64_t i = 0; i < now.size(); ++i) {
      part.values()[static_cast<std::size_t>(now.offset + i)] = whole.values()[static_cast<std::size_t>(old.offset + i)];
    }
  });
  optim::divide(other, whole.segments(), part.segments(), part.length(), steps_of(other));
  CHECK(steps_of(other) == 5);
  for (int i = 0; i < 3; ++i) {
    step(inner, whole, pool);
    step(other, part, pool);
  }
  for (std::size_t i = 0; i < 16; ++i) CHECK(part.value(0)[i] == whole.value(1)[i]);
  CHECK(part.value(1)[0] != 0);
}

}  // namespace

TEST_CASE("divisible: a part that moves trains on as if it had not moved", "[optim][fast]") {
  check_part_that_moves<optim::adamw>();
  check_part_that_moves<optim::lamb>();
  check_part_that_moves<optim::sgd>();  // has no state
  check_part_that_moves<optim::sgd>(optim::sgd_options{.momentum = 0.9F});
  check_part_that_moves<optim::sparse_sgd>(optim::sparse_sgd_options{.momentum = 0.9F});
  check_part_that_moves<optim::sparse_adam>();
}

TEST_CASE("divisible: resuming is as after that many steps", "[optim][fast]") {
  thread_pool pool{1};
  parameter_store store = store_of({0});
  optim::adamw stepped, resumed;
  stepped.reset(store.length());
  for (int i = 0; i < 7; ++i) step(stepped, store, pool);
  resumed.resume(store.length(), 7);
  for (std::size_t m = 0; m < 2; ++m) {
    for (std::size_t i = 0; i < 16; ++i) resumed.moments()[m][i] = stepped.moments()[m][i];
  }
  parameter_store twin = store_of({0});
  for (std::size_t i = 0; i < 16; ++i) twin.values()[i] = store.values()[i];
  step(stepped, store, pool);
  step(resumed, twin, pool);
  for (std::size_t i = 0; i < 16; ++i) CHECK(twin.values()[i] == store.values()[i]);
}

}  // namespace causeway
