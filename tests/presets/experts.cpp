// SPDX-License-Identifier: Apache-2.0
#include <causeway/presets/experts.hpp>

#include <causeway/optim/adamw.hpp>
#include <causeway/sim/world.hpp>
#include <causeway/train/trainer.hpp>

#include <chrono>
#include <map>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace std::chrono_literals;

namespace {

using expert = stage::feed_forward_expert<>;
constexpr std::int64_t width = 8, context = 6, vocabulary = 13, sequences = 4;
const parallel::expert_mixture_options mixture{.run = 2, .sides = {2, 3}, .width = width, .layers = 1};

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}
void must(const result<void>& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
}

}  // namespace

TEST_CASE("presets: learning_at_home's trainers share experts that move by themselves, and average the rest; a host dies",
          "[presets][fast]") {
  sim::world w{{.seed = 1, .link = {.latency = 20ms}}};
  std::vector<sim::host_index> trainers;
  for (std::uint32_t h = 0; h < 4; ++h) w.add_host({});
  for (const std::uint32_t h : {0U, 1U}) {
    w.boot(h, [h](sim::process& p) {
      std::map<stage::expert_id, expert> mine;
      for (stage::expert_id e = h; e < 6; e += 2) {
        mine.emplace(e, expert{{.width = width, .hidden = 12, .learning_rate = 0.01F, .seed = e}});
      }
      parallel::expert_host<expert> host{p.make_fabric(h + 1), {.mixture = mixture}, std::move(mine)};
      must(host.open());
      (void)host.serve([] { return false; });
    });
    trainers.push_back(2 + h);
  }
  std::vector<std::vector<double>> losses(2);
  std::vector<std::vector<float>> ends(2);
  for (std::uint32_t t = 0; t < 2; ++t) {
    w.boot(2 + t, [&, t](sim::process& p) {
      environment env;
      env.transport = net::any_transport{valued(p.make_transport(trainers))};
      env.clock = p.clock();
      const auto client = valued(parallel::expert_client::create(
          p.make_fabric(10 + t), {.mixture = mixture, .dial = {"host-0:1", "host-1:1"}, .patience = 2s}));
      if (!valued(client->wait_for_experts(6, p.now() + 5s))) throw std::runtime_error{"no experts"};
      auto model = valued(parallel::expert_gpt::create(
          {.heads = 2, .context = context, .vocabulary = vocabulary, .gate = {.chosen = 2}}, *client));
      trainer_options o;
      o.learning_rate = optim::constant{0.01F};
      auto trainer = make_trainer(std::move(model), std::move(env), o, presets::make(presets::learning_at_home_options{10}),
                                  optim::adamw{});
      must(trainer.start());
      rng draw{t};
      for (int s = 0; s < 80; ++s) {
        std::vector<std::int32_t> in, out;
        for (std::int64_t i = 0; i < context * sequences; ++i) {
          in.push_back(static_cast<std::int32_t>(draw.below(vocabulary)));
          out.push_back((in.back() * 5 + 1) % static_cast<std::int32_t>(vocabulary));
        }
        if (s == 40 && t == 0) w.kill(1);
        losses[t].push_back(valued(trainer.step({in, out, sequences})).loss);
      }
      must(trainer.finish());
      const auto values = trainer.model().parameters().values();
      ends[t].assign(values.begin(), values.end());
    });
  }
  for (int s = 1; s < 600 && (ends[0].empty() || ends[1].empty()); ++s) w.run_until(time_point{std::chrono::seconds{s}});
  REQUIRE_FALSE(ends[0].empty());
  const bool alike = ends[0] == ends[1];
  CHECK(alike);
  for (const auto& l : losses) {
    REQUIRE(l.size() == 80);
    CHECK(l[35] < 0.9 * l[0]);
    CHECK(l[79] < 0.7 * l[35]);  // with half of the experts
  }
}
