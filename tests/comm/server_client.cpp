// SPDX-License-Identifier: Apache-2.0
#include <causeway/comm/server_client.hpp>

#include <causeway/collective/aggregator.hpp>
#include <causeway/comm/async_parameter_server.hpp>
#include <causeway/net/memory_transport.hpp>
#include <causeway/optim/nesterov.hpp>

#include "support/simulated_runs.hpp"

using namespace causeway;
using namespace causeway::comm::detail;

TEST_CASE("server client: clients and their hub pass the asynchronous conformance suite", "[comm][fast]") {
  SECTION("defaults, slow and fast clients") {
    support::check_asynchronous_policy([] { return comm::async_parameter_server{axis::every{3}}; },
                                       {.speeds = {1, 0.5, 0.9}});
  }
  SECTION("all are waited for") {
    support::check_asynchronous_policy(
        [] {
          return comm::async_parameter_server{axis::every{3}, axis::quorum{.least = 3}, axis::outer<optim::nesterov>{0.7F}};
        },
        {.speeds = {1, 0.5, 0.9}}, true);
  }
}

namespace {

constexpr std::size_t length = 8;

/// A client that pulled ones, pushed 0.75, which has not been answered, and is at 0.5.
struct under_way {
  using codec = compress::as_message<compress::none>;

  net::memory_network network{2};
  net::any_transport transport{network.transport(1)};
  thread_pool pool{1};
  any_clock clock{};
  log_sink log{};
  std::vector<axis::fragment> cuts{{{{0, length}}, {}, length}};
  axis::every trigger{};
  axis::one_by_one arrivals{};
  collective::mean aggregator{};
  hub_rules<axis::every, axis::one_by_one, codec, collective::mean> rules{trigger, arrivals, codec{}, aggregator};
  hub_terms terms{.transport = transport, .pool = pool, .clock = clock, .log = log, .cuts = cuts};
  server_client client;
  std::vector<float> live = std::vector<float>(length, 0.75F);
  std::vector<float> pushed = std::vector<float>(length, 0.25F);

  under_way() {
    REQUIRE(client.open(terms, 0, 0, std::vector<float>(length, 1.0F)));
    hub_leg& leg = client.legs()[0];
    leg.samples = leg.steps = leg.since = 4;
    leg.at_send = live;
    client.send(client.compose(rules, axis::no_residual{}, 1.0F, terms, 0, live, true));
    leg.samples = leg.steps = 6;
    leg.since = 2;
    live.assign(length, 0.5F);
  }
};

}  // namespace

TEST_CASE("server client: what a hub has taken is not pushed again, what it has not is", "[comm][fast]") {
  under_way taken;
  taken.client.resume_from(std::vector<std::uint64_t>{1}, taken.pushed, taken.terms);
  CHECK(taken.client.anchor()[3] == 0.75F);
  CHECK(taken.pushed[3] == 0.25F);
  const hub_leg& rest = taken.client.legs()[0];
  CHECK((rest.number == 1 && rest.samples == 2 && rest.steps == 2 && rest.since == 2 && !rest.pending));

  under_way missed;
  missed.client.resume_from(std::vector<std::uint64_t>{0}, missed.pushed, missed.terms);
  CHECK(missed.client.anchor()[3] == 1.0F);
  CHECK(missed.pushed[3] == 0.0F);
  const hub_leg& all = missed.client.legs()[0];
  CHECK((all.number == 0 && all.samples == 6 && all.steps == 6 && !all.pending));
}

TEST_CASE("server client: to another hub all is pushed again", "[comm][fast]") {
  under_way c;
  c.client.take_back(c.pushed, std::vector<float>(length, 2.0F), c.live, std::vector<hub_work>{{.samples = 9, .steps = 9}},
                     c.terms);
  CHECK(c.live[3] == 2.0F - 0.5F);  // 0.25 as pushed, and 0.25 since
  CHECK(c.client.anchor()[3] == 2.0F);
  const hub_leg& leg = c.client.legs()[0];
  CHECK((leg.number == 0 && leg.samples == 9 && leg.steps == 9 && leg.since == 9 && !leg.pending));
  c.client.begin_from(std::vector<float>(length, 3.0F));
  CHECK(c.client.anchor()[3] == 3.0F);
  CHECK((leg.since == 0 && leg.samples == 0));
}

TEST_CASE("server client: what a server has pushed up is pushed again without the server's parameters being moved",
          "[comm][fast]") {
  under_way c;
  c.client.take_back(c.pushed, std::vector<hub_work>{{.samples = 9, .steps = 3}}, c.terms);
  CHECK(c.client.anchor()[3] == 1.0F);  // at 0.5: 0.25 as pushed, and 0.25 since
  const hub_leg& leg = c.client.legs()[0];
  CHECK((leg.number == 0 && leg.samples == 9 && leg.steps == 3 && leg.since == 3 && !leg.pending));
  // With another push before, of 0.125.
  under_way twice;
  twice.pushed.assign(length, 0.375F);
  twice.client.take_back(twice.pushed, std::vector<hub_work>{{.samples = 9, .steps = 3}}, twice.terms);
  CHECK(twice.client.anchor()[3] == 1.125F);
}
