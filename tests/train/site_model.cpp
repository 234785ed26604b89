// SPDX-License-Identifier: Apache-2.0
#include <causeway/train/site_model.hpp>

#include <causeway/collective/transport_site.hpp>
#include <causeway/comm/every_step.hpp>
#include <causeway/comm/rounds.hpp>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/conformance.hpp"
#include "support/sites.hpp"

using namespace causeway;
using support::blocky;

namespace {

/// A member of a site over a network in memory, which counts what it is asked.
class memory_site final : public collective::site {
 public:
  memory_site(const net::memory_network& lines, std::uint32_t rank) : over_{lines.transport(rank)} {
    std::vector<net::peer_index> members;
    for (net::peer_index p = 0; p < lines.size(); ++p) members.push_back(p);
    options_.deadline = steady_clock{}.now() + std::chrono::minutes{5};
    site_.emplace(over_, std::move(members), net::message_id{.channel = 32}, options_);
  }
  [[nodiscard]] std::uint32_t size() const override { return site_->size(); }
  [[nodiscard]] std::uint32_t rank() const override { return site_->rank(); }
  [[nodiscard]] result<void> mean(std::span<float> data) override { return site_->mean(data); }
  [[nodiscard]] result<void> sum(std::span<float> data) override {
    ++sums[data.size()];
    return site_->sum(data);
  }
  [[nodiscard]] result<void> broadcast(std::uint32_t from, std::span<float> data) override {
    ++broadcasts[data.size()];
    return site_->broadcast(from, data);
  }
  [[nodiscard]] result<bool> all_of(bool mine) override { return site_->all_of(mine); }

  std::map<std::size_t, int> sums{}, broadcasts{};  ///< by length

 private:
  net::any_transport over_;
  collective::collective_options options_{};
  std::optional<collective::transport_site> site_{};
};

/// Sites of `members`; those but the first compute on threads until the sites are dismissed.
template <class M = blocky>
struct sites_in_memory {
  sites_in_memory(std::uint32_t sites, std::uint32_t members) : outcomes(sites * members) {
    for (std::uint32_t s = 0; s < sites; ++s) {
      net::memory_network& lines = inside.emplace_back(members);
      first.push_back(std::make_shared<memory_site>(lines, 0));
      for (std::uint32_t r = 1; r < members; ++r) {
        others.emplace_back([&outcome = outcomes[s * members + r], own = std::make_shared<memory_site>(lines, r)] {
          M model;
          outcome = serve_site(*own, model);
        });
      }
    }
  }
  void dismiss() {
    for (const auto& s : first) CHECK(dismiss_site(*s));
    join();
  }
  void join() {
    for (auto& t : others) t.join();
    others.clear();
  }

  std::list<net::memory_network> inside;
  std::vector<std::shared_ptr<memory_site>> first;
  std::vector<result<void>> outcomes;
  std::vector<std::thread> others;
};

template <class MakePolicy>
void check_bits_of_micro_batches(MakePolicy make, std::uint32_t members) {
  const support::conformance_options options{.peers = 2, .steps = 5, .sequences = members};
  support::trainer_runs alone{[&](environment env) { return support::alone_trainer(std::move(env), make(), members); },
                              options};
  const auto expected = alone.run({}, 5, true);
  sites_in_memory<> sites{2, members};
  support::trainer_runs together{[&](environment env) {
                                   const auto self = env.transport.self();
                                   return support::site_trainer(std::move(env), make(), sites.first[self]);
                                 },
                                 options};
  const auto found = together.run({}, 5, true);
  sites.dismiss();
  for (std::size_t peer = 0; peer < 2; ++peer) {
    CHECK(found[peer].error.empty());
    const bool same = found[peer].parameters == expected[peer].parameters;
    CHECK(same);
  }
  for (const auto& o : sites.outcomes) CHECK(o);
}

/// Fails on its second pass.
struct breaking : blocky {
  result<double> forward_backward(std::span<const std::int32_t> in, std::span<const std::int32_t> out, std::int64_t n,
                                  float scale, std::uint64_t stream) {
    if (++passes == 2) return fail(errc::device_lost, "breaking", "on purpose");
    return blocky::forward_backward(in, out, n, scale, stream);
  }
  int passes = 0;
};

}  // namespace

static_assert(Model<site_model<blocky>>);

TEST_CASE("site model: sites have the bits of processes with as many micro-batches, whatever goes on between them",
          "[train][fast]") {
  for (const std::uint32_t members : {2U, 3U}) {  // transport_site adds in the order of members
    check_bits_of_micro_batches([] { return comm::every_step<>{}; }, members);
    check_bits_of_micro_batches([] { return comm::rounds{axis::every{2}, axis::outer<optim::nesterov>{0.7F}}; }, members);
  }
}

TEST_CASE("site model: parameters go out once a step and gradients come in once, and losses are exact", "[train][fast]") {
  sites_in_memory<> one{1, 2};
  auto together = support::site_trainer({}, comm::every_step<>{}, one.first[0], 2);
  auto alone = support::alone_trainer({}, comm::every_step<>{}, 2);
  REQUIRE(together.start());
  REQUIRE(alone.start());
  const auto tokens = support::tokens_of(0, 0, 16);
  for (int step = 0; step < 3; ++step) {
    const auto a = together.step({tokens, tokens, 4});
    const auto b = alone.step({tokens, tokens, 4});
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->loss == Approx(b->loss).epsilon(1e-6));
  }
  one.dismiss();
  const std::size_t length = together.model().parameters().values().size();
  CHECK(one.first[0]->broadcasts[length] == 3);
  CHECK(one.first[0]->sums == (std::map<std::size_t, int>{{6, 3}, {length, 3}}));
}

TEST_CASE("site model: a member without a sequence adds nothing", "[train][fast]") {
  sites_in_memory<> one{1, 3};
  auto together = support::site_trainer({}, comm::every_step<>{}, one.first[0]);
  auto alone = support::alone_trainer({}, comm::every_step<>{}, 2);
  REQUIRE(together.start());
  REQUIRE(alone.start());
  const auto tokens = support::tokens_of(0, 0, 8);
  const auto a = together.step({tokens, tokens, 2});
  const auto b = alone.step({tokens, tokens, 2});
  REQUIRE(a);
  REQUIRE(b);
  CHECK(a->loss == Approx(b->loss).epsilon(1e-6));
  one.dismiss();
}

TEST_CASE("site model: a member that cannot compute ends the step of all, and says why itself", "[train][fast]") {
  sites_in_memory<breaking> one{1, 2};
  auto trainer = support::site_trainer({}, comm::every_step<>{}, one.first[0]);
  REQUIRE(trainer.start());
  const auto tokens = support::tokens_of(0, 0, 8);
  REQUIRE(trainer.step({tokens, tokens, 2}));
  const auto broken = trainer.step({tokens, tokens, 2});
  one.join();
  REQUIRE(!broken);
  CHECK(broken.error().code == errc::peer_lost);
  CHECK(broken.error().text().find("its own error says why") != std::string::npos);
  REQUIRE(!one.outcomes[1]);
  CHECK(one.outcomes[1].error().code == errc::device_lost);
}
