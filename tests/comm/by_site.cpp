// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/by_site.hpp>

#include <causeway/comm/every_step.hpp>
#include <causeway/compress/bf16.hpp>
#include <causeway/optim/sgd.hpp>

#include "support/conformance.hpp"

#include <mutex>

using namespace causeway;

namespace {

using sites = std::vector<std::vector<net::peer_index>>;
using local_sgd = comm::periodic<optim::sgd>;

auto in_pairs() { return comm::by_site<local_sgd>{{.sites = {{0, 2}, {3, 1}}}, local_sgd{{.local_steps = 2}}}; }

/// What each peer ends with after `steps` steps of SGD with rate 1/4, and how often it committed a round.
struct outcome {
  std::vector<std::vector<float>> parameters;
  std::vector<std::uint64_t> rounds, hashes;
  std::vector<std::string> errors;
};

template <class Make>
outcome train(net::memory_network& network, std::uint64_t steps, Make&& make, std::int64_t size = 37) {
  const std::uint32_t n = network.size();
  outcome got{std::vector<std::vector<float>>(n), std::vector<std::uint64_t>(n), std::vector<std::uint64_t>(n),
              std::vector<std::string>(n)};
  support::run_cluster(network, n, [&](std::uint32_t peer, environment env) {
    trainer_options options;
    options.learning_rate = optim::constant{0.25F};
    options.clip_norm = 0;
    auto t = make_trainer(support::test_model{support::quadratic{size}}, std::move(env), options, make(peer), optim::sgd{});
    auto done = t.start();
    for (std::uint64_t s = 0; done && s < steps; ++s) {
      const auto tokens = support::tokens_of(peer, s);
      const auto report = t.step({tokens, tokens, 1});
      if (!report) done = report.error();
    }
    if (!done) got.errors[peer] = done.error().text();
    const auto values = t.model().parameters().values();
    got.parameters[peer].assign(values.begin(), values.end());
    got.rounds[peer] = t.context().round();
    got.hashes[peer] = t.context().state_hash();
  });
  return got;
}
template <class Make>
outcome train(std::uint32_t peers, std::uint64_t steps, Make&& make, std::int64_t size = 37) {
  net::memory_network network{peers};
  return train(network, steps, make, size);
}

/// The same in double: SGD on the mean gradient of each site, and every `local_steps` the mean of all peers' parameters.
/// All numbers are multiples of a power of two, so that f32 makes no rounding error in a few steps.
std::vector<double> worked_out(const sites& all, std::uint64_t steps, std::uint64_t local_steps) {
  std::vector<double> ends;
  support::quadratic start;
  for (std::int64_t i = 0; i < 37; ++i) {
    std::vector<double> theta(all.size(), static_cast<double>(start.parameters().value(0)[i]));
    for (std::uint64_t s = 0; s < steps; ++s) {
      double mean = 0, peers = 0;
      for (std::size_t site = 0; site < all.size(); ++site) {
        double centre = 0;
        for (const auto peer : all[site]) {
          for (const auto t : support::tokens_of(peer, s))
            centre += static_cast<double>(support::quadratic::centre(t, i)) / 4;
        }
        const auto members = static_cast<double>(all[site].size());
        theta[site] -= 0.25 * (theta[site] - centre / members);
        mean += theta[site] * members, peers += members;
      }
      if ((s + 1) % local_steps == 0) std::fill(theta.begin(), theta.end(), mean / peers);
    }
    ends.push_back(theta[0]);
  }
  return ends;
}

void check_exact(const outcome& got, const std::vector<double>& expected) {
  for (std::size_t peer = 0; peer < got.parameters.size(); ++peer) {
    INFO("peer " << peer << ": " << got.errors[peer]);
    REQUIRE(got.errors[peer].empty());
    const std::vector<double> found(got.parameters[peer].begin(), got.parameters[peer].begin() + 37);
    const bool same = found == expected;
    CHECK(same);
    CHECK(got.hashes[peer] == got.hashes[0]);
  }
}

auto summed(sites s, std::uint32_t local_steps) {
  return comm::by_site<local_sgd>{{.sites = std::move(s)},
                                  local_sgd{{.local_steps = local_steps, .outer_learning_rate = 1}}};
}

}  // namespace

TEST_CASE("by site: passes the conformance suite with four peers in two sites", "[comm][fast]") {
  support::check_communication_policy(in_pairs, {.peers = 4, .steps = 5});
}

TEST_CASE("by site: sites step on their mean gradient and meet in rounds, to the bit", "[comm][fast]") {
  const sites pairs{{0, 1}, {2, 3}}, shuffled{{3, 0}, {1, 2}}, one{{0, 1, 2, 3}}, alone{{0}, {1}, {2}, {3}};
  for (const auto& s : {pairs, shuffled, one, alone}) {
    const auto got = train(4, 4, [&](std::uint32_t) { return summed(s, 2); });
    check_exact(got, worked_out(s, 4, 2));
    CHECK(got.rounds[0] == 2);
  }
  const auto unnamed = train(4, 4, [](std::uint32_t) { return summed({}, 2); });
  check_exact(unnamed, worked_out(alone, 4, 2));
}

TEST_CASE("by site: in sites of different sizes every peer counts alike", "[comm][fast]") {
  const sites uneven{{0, 1, 2}, {3}};
  const auto got = train(4, 2, [&](std::uint32_t) { return summed(uneven, 2); });
  const auto expected = worked_out(uneven, 2, 2);
  for (std::size_t peer = 0; peer < 4; ++peer) {
    REQUIRE(got.errors[peer].empty());
    CHECK(got.hashes[peer] == got.hashes[0]);
    for (std::size_t i = 0; i < 37; ++i)
      CHECK(static_cast<double>(got.parameters[peer][i]) == Approx(expected[i]).margin(1e-5));
  }
}

TEST_CASE("by site: with every_step between sites all peers descend on the mean of all", "[comm][fast]") {
  const sites pairs{{0, 1}, {2, 3}};
  const auto got = train(4, 4, [&](std::uint32_t) { return comm::by_site<comm::every_step<>>{{.sites = pairs}}; });
  check_exact(got, worked_out({{0, 1, 2, 3}}, 4, 4));
}

TEST_CASE("by site: lists that differ or do not fit are refused by all peers", "[comm][fast]") {
  const auto differing = train(4, 1, [](std::uint32_t peer) {
    return summed(peer == 2 ? sites{{0, 1}, {3, 2}} : sites{{0, 1}, {2, 3}}, 2);
  });
  for (const auto& e : differing.errors) CHECK(e.find("sites") != std::string::npos);
  for (const auto& wrong : {sites{{0, 1}, {2}}, sites{{0, 1}, {1, 2, 3}}, sites{{0, 1, 2, 3}, {}}, sites{{0, 1}, {2, 7}}}) {
    for (const auto& e : train(4, 1, [&](std::uint32_t) { return summed(wrong, 2); }).errors) {
      CHECK(e.find("every peer of the run once") != std::string::npos);
    }
  }
}

namespace {

/// A site over another network than the run's, as NCCL is, which counts what it is asked.
class own_lines final : public collective::site {
 public:
  own_lines(net::memory_network& lines, net::peer_index self, std::vector<net::peer_index> members)
      : over_{lines.transport(self)}, site_{over_, std::move(members), {.channel = 32}, {}} {}
  [[nodiscard]] std::uint32_t size() const override { return site_.size(); }
  [[nodiscard]] std::uint32_t rank() const override { return site_.rank(); }
  [[nodiscard]] result<void> mean(std::span<float> data) override { return ++means, site_.mean(data); }
  [[nodiscard]] result<void> broadcast(std::uint32_t from, std::span<float> data) override {
    values_shared += data.size();
    return site_.broadcast(from, data);
  }
  [[nodiscard]] result<bool> all_of(bool mine) override { return site_.all_of(mine); }

  int means = 0;
  std::size_t values_shared = 0;

 private:
  net::any_transport over_;
  collective::transport_site site_;
};

}  // namespace

TEST_CASE("by site: a site of its own carries what goes on within the site, with the same bits", "[comm][fast]") {
  const sites pairs{{0, 1}, {2, 3}};
  net::memory_network lines{4};
  std::vector<std::shared_ptr<own_lines>> close(4);
  for (std::uint32_t p = 0; p < 4; ++p) close[p] = std::make_shared<own_lines>(lines, p, pairs[p / 2]);
  const auto with = [&](std::uint32_t peer) {
    return comm::by_site<local_sgd>{{.sites = pairs}, local_sgd{{.local_steps = 2, .outer_learning_rate = 1}}, close[peer]};
  };
  check_exact(train(4, 4, with), worked_out(pairs, 4, 2));
  for (const auto& c : close) {
    CHECK(c->means == 4);
    CHECK(c->values_shared == 2 * support::quadratic{}.parameters().values().size());
  }
}

TEST_CASE("by site: lines between sites carry one replica, in pieces, through the codec", "[comm][fast]") {
  using policy = comm::by_site<comm::periodic<optim::sgd, compress::bf16>>;
  const sites pairs{{0, 1}, {2, 3}};
  constexpr std::int64_t size = 40'000;
  net::memory_network lines{4}, between{4};
  const auto got = train(
      between, 2,
      [&](std::uint32_t peer) {
        return policy{{.sites = pairs},
                      comm::periodic<optim::sgd, compress::bf16>{{.local_steps = 2}},
                      std::make_shared<own_lines>(lines, peer, pairs[peer / 2])};
      },
      size);
  for (std::uint32_t peer = 0; peer < 4; ++peer) {
    REQUIRE(got.errors[peer].empty());
    CHECK(got.hashes[peer] == got.hashes[0]);
    const auto sent = between.transport(peer).stats();
    const std::uint64_t hashes = 2 * 3 * 8;  // of parameters and sites, at the start
    CHECK(sent.bytes_sent - 64 * sent.frames_sent == hashes + size / 2 * 2);
  }
}

TEST_CASE("by site: when any operation within a site fails, its peers come back with an error", "[comm][fast]") {
  const sites pairs{{0, 1}, {2, 3}};
  for (std::uint64_t n = 0;; ++n) {
    INFO("operation " << n);
    net::memory_network lines{4};
    lines.kill_at(1, n);
    std::vector<std::shared_ptr<own_lines>> close(4);
    for (std::uint32_t p = 0; p < 4; ++p) close[p] = std::make_shared<own_lines>(lines, p, pairs[p / 2]);
    const auto got = train(4, 4, [&](std::uint32_t peer) {
      return comm::by_site<local_sgd>{{.sites = pairs}, local_sgd{{.local_steps = 2}}, std::move(close[peer])};
    });
    if (got.errors == std::vector<std::string>(4)) {
      REQUIRE(n > 10);
      break;
    }
    CHECK_FALSE(got.errors[1].empty());
  }
}

TEST_CASE("by site: a site that was opened for others is refused", "[comm][fast]") {
  net::memory_network lines{4};
  const auto got = train(4, 1, [&](std::uint32_t peer) {
    auto wrong = std::make_shared<own_lines>(lines, peer, std::vector<net::peer_index>{peer});
    return comm::by_site<local_sgd>{{.sites = {{0, 1}, {2, 3}}}, local_sgd{}, std::move(wrong)};
  });
  for (const auto& e : got.errors) CHECK(e.find("opened for other peers") != std::string::npos);
}

TEST_CASE("by site: promises what the policy between sites keeps", "[comm][fast]") {
  STATIC_REQUIRE(comm::by_site<>::traits.identical_replicas);
  STATIC_REQUIRE(comm::by_site<>::traits.exchanges_gradients);
  STATIC_REQUIRE(comm::by_site<>::traits.tolerates == peers::fixed);
  STATIC_REQUIRE(comm::by_site<>::traits.rounds_by_steps == comm::periodic<>::traits.rounds_by_steps);
}
