// SPDX-License-Identifier: Apache-2.0
#include <causeway/parallel/experts/expert_gpt.hpp>

#include <causeway/sim/world.hpp>
#include <causeway/train/model.hpp>

#include <chrono>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "support/catch.hpp"

namespace causeway::parallel {
namespace {

using namespace std::chrono_literals;
using expert = stage::feed_forward_expert<>;
static_assert(Model<expert_gpt>);

constexpr std::int64_t width = 8, context = 6, vocabulary = 13, sequences = 4;
const expert_mixture_options mixture{.run = 2, .sides = {2, 2}, .width = width, .layers = 2};

template <class R>
auto valued(R&& outcome) {
  if (!outcome) throw std::runtime_error{outcome.error().text()};
  return std::move(*outcome);
}

/// One host with all eight experts, and a trainer. `rate`: of the experts.
void with_model(float rate, std::uint32_t chosen, const std::function<void(sim::world&, expert_gpt&)>& use) {
  sim::world w{{.seed = 1, .link = {.latency = 5ms}}};
  w.add_host({});
  w.add_host({});
  bool used = false;
  w.boot(0, [&](sim::process& p) {
    std::map<stage::expert_id, expert> mine;
    for (stage::expert_id e = 0; e < 8; ++e) {
      mine.emplace(e, expert{{.width = width, .hidden = 12, .learning_rate = rate, .seed = e}});
    }
    expert_host<expert> host{p.make_fabric(1), {.mixture = mixture}, std::move(mine)};
    if (!host.open()) throw std::runtime_error{"open"};
    (void)host.serve([] { return false; });
  });
  w.boot(1, [&](sim::process& p) {
    const auto client = valued(expert_client::create(p.make_fabric(9), {.mixture = mixture, .dial = {"host-0:1"}}));
    if (!valued(client->wait_for_experts(8, p.now() + 5s))) throw std::runtime_error{"no experts"};
    const expert_gpt_options o{.heads = 2, .context = context, .vocabulary = vocabulary, .gate = {.chosen = chosen}};
    auto model = valued(expert_gpt::create(o, *client));
    model.initialize(5);
    use(w, model);
    used = true;
  });
  for (int s = 1; s < 600 && !used; ++s) w.run_until(time_point{std::chrono::seconds{s}});
  REQUIRE(used);
}

struct text {
  std::vector<std::int32_t> in, out;
  text() {
    rng draw{4};
    for (std::int64_t i = 0; i < context * sequences; ++i) {
      in.push_back(static_cast<std::int32_t>(draw.below(vocabulary)));
      out.push_back((in.back() * 5 + 1) % static_cast<std::int32_t>(vocabulary));
    }
  }
};

}  // namespace

TEST_CASE("expert_gpt: gradients are those of finite differences while experts stay as they are", "[parallel][fast]") {
  with_model(0.0F, 4, [](sim::world&, expert_gpt& model) {
    const text t;
    parameter_store& store = model.parameters();
    rng draw{8};
    for (float& v : store.values()) v += 0.2F * draw.normal();  // away from where gradients are small
    std::fill(store.gradients().begin(), store.gradients().end(), 0.0F);
    const double loss = valued(model.forward_backward(t.in, t.out, sequences, 1.0F, 0));
    CHECK(valued(model.evaluate(t.in, t.out, sequences)) == loss);
    for (const parameter_segment& s : store.segments()) {
      INFO(s.name);
      double largest = 0;
      for (int probe = 0; probe < 6; ++probe) {
        const auto i = static_cast<std::size_t>(s.offset) + draw.below(static_cast<std::uint32_t>(s.size()));
        constexpr float h = 1e-2F;
        float& at = store.values()[i];
        const float is = at;
        at = is + h;
        const double up = valued(model.evaluate(t.in, t.out, sequences));
        at = is - h;
        const double down = valued(model.evaluate(t.in, t.out, sequences));
        at = is;
        const double slope = (up - down) / (2 * static_cast<double>(h));
        const auto gradient = static_cast<double>(store.gradients()[i]);
        CHECK(gradient == Approx(slope).epsilon(0.02).margin(0.02));
        largest = std::max(largest, std::abs(gradient));
      }
      CHECK(largest > 1e-4);
    }
  });
}

TEST_CASE("expert_gpt: experts learn by themselves, and with the rest more than alone", "[parallel][fast]") {
  const auto trained = [](float expert_rate, float own_rate) {
    double last = 0;
    with_model(expert_rate, 2, [&](sim::world&, expert_gpt& model) {
      const text t;
      optim::adamw inner;
      inner.reset(model.parameters().length());
      for (int s = 0; s < 40; ++s) {
        auto view = model.parameters().view();
        std::fill(view.gradients.begin(), view.gradients.end(), 0.0F);
        last = valued(model.forward_backward(t.in, t.out, sequences, 1.0F / 24, 0)) / 24;
        inner.step(model.backend().pool(), view, {.learning_rate = own_rate});
        model.parameters().touch();
      }
    });
    return last;
  };
  const double none = trained(0.0F, 0.0F), experts = trained(0.01F, 0.0F), all = trained(0.01F, 0.01F);
  CHECK(none == Approx(std::log(static_cast<double>(vocabulary))).margin(0.1));
  CHECK(experts < none - 0.1);
  CHECK(all < 0.7 * experts);
}

TEST_CASE("expert_gpt: when all experts are lost a step fails and says so; sizes that cannot work are refused",
          "[parallel][fast]") {
  with_model(0.0F, 2, [](sim::world& w, expert_gpt& model) {
    const text t;
    REQUIRE(model.evaluate(t.in, t.out, sequences));
    w.kill(0);
    const auto outcome = model.forward_backward(t.in, t.out, sequences, 1.0F, 0);
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::timeout);
    CHECK_FALSE(model.evaluate(t.in, t.out, 5));
    auto wrong = t.in;
    wrong[3] = vocabulary;
    const auto refused = model.evaluate(wrong, t.out, sequences);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::invalid_argument);
  });
}

}  // namespace causeway::parallel
