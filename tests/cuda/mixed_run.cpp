// SPDX-License-Identifier: Apache-2.0
// One run of a peer whose model is on an engine and one on the processor.
#include <causeway/comm/periodic.hpp>
#include <causeway/cuda/adamw.hpp>
#include <causeway/cuda/backend.hpp>
#include <causeway/optim/adamw.hpp>
#include <causeway/train/trainer.hpp>

#include "cuda/host_queue.hpp"
#include "cuda/model_case.hpp"
#include "support/cluster.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using namespace causeway;
using causeway_test::golden_gpt;

struct outcome {
  std::vector<std::vector<float>> rounds;  ///< the parameters after each committed round
  std::vector<double> losses;
};

template <class Model, class Inner>
outcome train(std::uint32_t peer, environment env, Model model, Inner inner) {
  outcome got;
  auto t = make_trainer(std::move(model), std::move(env), {.learning_rate = optim::constant{3e-3F}},
                        comm::periodic<>{{.local_steps = 3}}, std::move(inner));
  if (!t.start()) return got;
  for (std::uint64_t s = 0; s < 9; ++s) {
    std::vector<std::int32_t> tokens(2 * 17);
    rng draw{s * 10 + peer};
    for (auto& token : tokens) token = static_cast<std::int32_t>(draw.below(5));
    const std::vector<std::int32_t> inputs(tokens.begin(), tokens.begin() + 32), targets(tokens.begin() + 2, tokens.end());
    const auto step = t.step({inputs, targets, 2});
    if (!step) return got;
    got.losses.push_back(step->loss);
    const auto values = t.context().parameters();
    if (step->committed_round) got.rounds.emplace_back(values.begin(), values.end());
  }
  return got;
}

}  // namespace

TEST_CASE("cuda backend: a peer on a device and one on the CPU are equal to the bit after each round", "[cuda][fast]") {
  std::array<outcome, 2> got;
  support::run_cluster(2, [&](std::uint32_t peer, environment env) {
    if (peer == 0) {
      const auto engine = causeway_test::host_engine();
      auto model = nn::basic_gpt<cuda::backend>::create(golden_gpt(), cuda::backend{engine});
      got[peer] = train(peer, std::move(env), std::move(*model), cuda::adamw{engine});
    } else {
      auto model = nn::gpt::create(golden_gpt());
      got[peer] = train(peer, std::move(env), std::move(*model), optim::adamw{});
    }
  });
  REQUIRE(got[0].rounds.size() == 3);
  REQUIRE(got[0].rounds == got[1].rounds);
  CHECK(got[0].rounds[0] != got[0].rounds[1]);
  CHECK(got[0].losses.back() < got[0].losses.front());
}
