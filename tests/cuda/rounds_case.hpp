// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_CUDA_ROUNDS_CASE_HPP
#define CAUSEWAY_TESTS_CUDA_ROUNDS_CASE_HPP

// Runs of comm::rounds in which a peer's model, rows and codec are on an engine, against the same run of processors.

#include <causeway/comm/rounds.hpp>
#include <causeway/compress/block_int8.hpp>
#include <causeway/cuda/codec.hpp>
#include <causeway/cuda/nesterov.hpp>
#include <causeway/optim/nesterov.hpp>

#include "cuda/host_engine.hpp"
#include "cuda/mixed_case.hpp"
#include "cuda/row_model.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace causeway_test::rounds_case {

using namespace causeway_test::mixed_case;
using int8 = causeway::compress::block_int8;

/// What a policy is made of, on the processor and on an engine.
struct here {
  using codec = int8;
  using outer = axis::outer<optim::nesterov>;
  [[nodiscard]] codec make_codec() const { return codec{}; }
  template <class Codec>
  [[nodiscard]] static Codec wrap(const Codec& how) {
    return how;
  }
  [[nodiscard]] outer make_outer() const { return outer{0.7F}; }
};
struct there {
  using codec = cuda::codec<int8>;
  using outer = axis::outer<cuda::nesterov>;
  std::shared_ptr<cuda::engine> engine;
  [[nodiscard]] codec make_codec() const { return codec{engine}; }
  template <class Codec>
  [[nodiscard]] cuda::codec<Codec> wrap(const Codec& how) const {
    return cuda::codec<Codec>{engine, how};
  }
  [[nodiscard]] outer make_outer() const { return outer{0.7F, cuda::nesterov{engine}}; }
};

/// A policy is made by `compose(here or there)`.
template <class Compose>
outcome on_cpu(std::uint32_t peer, environment env, Compose compose, const plan& p = {}) {
  return train(peer, std::move(env), row_model<host_threads>{std::in_place}, optim::adamw{}, compose(here{}), p);
}
template <class Compose>
outcome on_device(std::uint32_t peer, environment env, const std::shared_ptr<cuda::engine>& engine, Compose compose,
                  const plan& p = {}) {
  return train(peer, std::move(env), row_model<cuda::backend>{std::in_place, engine}, cuda::adamw{engine},
               compose(there{engine}), p);
}

/// A run in which peer 0 is on a device is the run of CPUs, to the bit, checkpoints included; from step `warm` on, when
/// rows have their memory, no page of the device moves.
template <class Compose>
void check_rounds(const Compose& compose, std::uint32_t peers = 2, std::uint64_t warm = 8) {
  constexpr std::uint64_t steps = 16;
  std::vector<outcome> expected(peers), got(peers);
  std::vector<plain_archive> expected_state(peers), state(peers);
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    expected[peer] = on_cpu(peer, std::move(env), compose, {.until = steps, .state = &expected_state[peer]});
  });
  const auto report = std::make_shared<causeway_test::queue_report>();
  report->migrates = true;
  std::uint64_t step = 0;
  plan watched{.until = steps, .state = &state[0]};
  watched.watch = [&](bool begins) {
    if (step >= warm) report->pages.watch(begins);
    if (!begins) ++step;
  };
  support::run_cluster(peers, [&](std::uint32_t peer, environment env) {
    got[peer] = peer == 0 ? on_device(0, std::move(env), engine_on_host(report), compose, watched)
                          : on_cpu(peer, std::move(env), compose, {.until = steps, .state = &state[peer]});
  });
  CHECK(report->pages.touched() == 0);
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    CAPTURE(peer);
    if (got[peer].failed) FAIL(got[peer].failed->text());
    REQUIRE(got[peer].rounds.size() >= 3);
    CHECK(got[peer].rounds.front() != got[peer].rounds.back());
    CHECK(got[peer].rounds == expected[peer].rounds);
    CHECK(got[peer].shared == expected[peer].shared);
    CHECK(got[peer].hashes == expected[peer].hashes);
    CHECK(state[peer].bytes == expected_state[peer].bytes);
  }
}

}  // namespace causeway_test::rounds_case

#endif  // CAUSEWAY_TESTS_CUDA_ROUNDS_CASE_HPP
