// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/remote_pass.hpp>

#include <causeway/kernels/backend.hpp>
#include <causeway/tensor/buffer_pool.hpp>
#include <causeway/tensor/tensor.hpp>

#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using tape_type = autograd::tape<kernels::cpu_backend>;

/// A model whose one operation others compute, or fail to.
struct remote_model {
  kernels::cpu_backend backend;
  buffer_pool memory;
  tape_type tape{backend, memory};
  std::optional<error> failed;
  bool fails_forth = false, fails_back = false, no_memory = false;
  int forwards = 0, backwards = 0;

  result<double> run(bool training, std::vector<std::int32_t> tokens = {1, 2}) {
    const nn::micro_batch b{tokens, tokens, 1};
    return run_remote_pass({"remote_model", 3, 5}, b, tape, failed, training, [this] { return record(); });
  }
  double record() {
    ++forwards;
    if (fails_forth) failed = fail(errc::timeout, "remote_model", "nobody computes it");
    const auto y = tape.result(tape.make(dtype::f32, {1}), [this](tape_type&, const tensor&) {
      ++backwards;
      if (fails_back) failed = fail(errc::timeout, "remote_model", "nobody computes it back");
    });
    tape.contribute(y.slot, tape.make(dtype::f32, {1}));
    if (no_memory) throw std::bad_alloc{};
    return 2.5;
  }
};

}  // namespace

TEST_CASE("remote pass: gives the loss, and goes back in training only", "[parallel][fast]") {
  remote_model m;
  for (const bool training : {true, false}) {
    const auto loss = m.run(training);
    REQUIRE(loss);
    CHECK(*loss == 2.5);
    CHECK(m.backwards == 1);
    CHECK(m.tape.position().nodes == 0);
    CHECK(m.tape.position().slots == 0);
  }
  CHECK(m.forwards == 2);
}

TEST_CASE("remote pass: what others fail to do fails the pass, on either way, and the next one begins anew",
          "[parallel][fast]") {
  remote_model m;
  m.fails_forth = true;
  auto outcome = m.run(true);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::timeout);
  CHECK(m.backwards == 0);
  m.fails_forth = false, m.fails_back = true;
  outcome = m.run(true);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().message == "nobody computes it back");
  CHECK(m.tape.position().slots == 0);
  m.fails_back = false;
  CHECK(m.run(true));
}

TEST_CASE("remote pass: without memory it fails, and leaves nothing on the tape", "[parallel][fast]") {
  remote_model m;
  m.no_memory = true;
  const auto outcome = m.run(true);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::out_of_memory);
  CHECK_THAT(outcome.error().text(), Catch::Matchers::Contains("remote_model"));
  CHECK(m.tape.position().slots == 0);
  m.no_memory = false;
  CHECK(m.run(true));
}

TEST_CASE("remote pass: tokens beyond the model's limits are refused before anything is recorded", "[parallel][fast]") {
  remote_model m;
  CHECK_FALSE(m.run(true, {1, 2, 3, 4}));
  CHECK_FALSE(m.run(true, {1, 5}));
  CHECK_FALSE(m.run(true, {}));
  CHECK(m.forwards == 0);
}

}  // namespace causeway::parallel
