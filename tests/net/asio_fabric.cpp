// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_fabric.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

const message_id talk{.channel = 1, .epoch = 4, .step = 5, .parent = 9};

}  // namespace

TEST_CASE("fabric: a dial brings a link up on both sides, with ids and addresses", "[net][fast]") {
  fabric_peer a{7};
  fabric_peer b{1ULL << 60U};
  CHECK(a.net->address() != b.net->address());
  a.dial(b.net->address());
  const peer_index to_b = a.wait_up(b.net->id());
  const peer_index to_a = b.wait_up(7);
  CHECK(a.links[to_b].address == b.net->address());
  CHECK(b.links[to_a].address == a.net->address());
  bool up = false;
  a.net->locked([&] { up = a.net->is_up(to_b); });
  CHECK(up);
  a.net->locked([&] { up = a.net->is_up(to_b + 1); });
  CHECK_FALSE(up);
}

TEST_CASE("fabric: control messages arrive whole and in order, of every size", "[net][fast]") {
  fabric_pair pair;
  std::vector<std::string> sent;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{17'000}, max_post_bytes}) {
    sent.push_back(std::string(size, static_cast<char>('a' + sent.size())));
    pair.a.post(pair.to_b, sent.back());
  }
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == sent.size(); }));
  CHECK((pair.b.links[pair.to_a].control == sent));
}

TEST_CASE("fabric: data passes in both directions over one stream and over three", "[net][fast]") {
  fabric_options options;
  options.streams_per_link = GENERATE(std::size_t{1}, std::size_t{3});
  options.transport.digest = GENERATE(false, true);
  CAPTURE(options.streams_per_link, options.transport.digest);
  fabric_pair pair{options};
  std::uint64_t step = 0;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, std::size_t{5'000'003}}) {
    CAPTURE(size);
    ++step;
    CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, size, step));
    CHECK(passes(*pair.b.net, pair.to_a, *pair.a.net, pair.to_b, size, step));
  }
  CHECK(until(*pair.a.net, [&] { return true; }));
}

TEST_CASE("fabric: two that dial each other at once end with one link, and lose no post", "[net][fast]") {
  fabric_peer a{1};
  fabric_peer b{2};
  for (fabric_peer* p : {&a, &b}) {
    p->when_up = [p](peer_index link) {
      for (int n = 0; n < 3; ++n) p->net->post(link, words(std::to_string(n)));
    };
  }
  for (int round = 1; round <= 200; ++round) {
    CAPTURE(round);
    a.dial(b.net->address());
    b.dial(a.net->address());
    const peer_index to_b = a.wait_up(2);
    const peer_index to_a = b.wait_up(1);
    const auto heard = [&](fabric_peer& p, peer_index from) {
      return until(*p.net, [&] { return p.links[from].control.size() == 3; });
    };
    REQUIRE(heard(a, to_b));
    REQUIRE(heard(b, to_a));
    for (auto& [who, link] : {std::pair{&a, to_b}, std::pair{&b, to_a}}) {
      who->net->locked([&, w = who, l = link] {
        CHECK(w->links[l].control == std::vector<std::string>{"0", "1", "2"});
        CHECK(w->links[l].ups == round);
        CHECK(w->links[l].downs == round - 1);
        CHECK(w->unreachable.empty());
        CHECK(w->links.size() == 1);
        w->links[l].control.clear();
      });
    }
    fabric_peer& closer = round % 2 == 0 ? a : b;
    closer.net->locked([&] { closer.net->close(round % 2 == 0 ? to_b : to_a, "next round"); });
    REQUIRE(until(*a.net, [&] { return a.links[to_b].downs == round; }));
    REQUIRE(until(*b.net, [&] { return b.links[to_a].downs == round; }));
  }
}

TEST_CASE("fabric: dials in both directions between new fabrics make one link", "[net][fast]") {
  for (int round = 0; round < 60; ++round) {
    fabric_peer a{static_cast<peer_id>(round % 2 == 0 ? 1 : 9)};
    fabric_peer b{5};
    std::thread side{[&] { a.dial(b.net->address()); }};
    b.dial(a.net->address());
    side.join();
    const peer_index to_b = a.wait_up(5);
    const peer_index to_a = b.wait_up(a.net->id());
    CHECK(passes(*a.net, to_b, *b.net, to_a, 10'000, 1));
    b.net->locked([&] { CHECK((b.order == std::vector<std::string>{"up " + std::to_string(a.net->id())})); });
    a.net->locked([&] { CHECK((a.order == std::vector<std::string>{"up 5"})); });
  }
}

TEST_CASE("fabric: a link that broke is the same link when it is made again, and data works", "[net][fast]") {
  fabric_pair pair;
  for (std::uint64_t round = 1; round <= 5; ++round) {
    CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, 300'000, round));
    std::vector<std::byte> buffer(10);
    const auto op = pair.a.net->receive(pair.to_b, in_epoch(4, 100 + round), buffer);
    pair.b.net->locked([&] { pair.b.net->close(pair.to_a, "to see what happens"); });
    const auto outcome = pair.a.net->wait(op, soon());
    REQUIRE_FALSE(outcome);
    CHECK(outcome.error().code == errc::peer_lost);
    CHECK(outcome.error().where == "peer 2");
    CHECK(outcome.error().message == "it ended the connection: to see what happens");
    REQUIRE(until(*pair.a.net, [&] { return pair.a.links[pair.to_b].downs == static_cast<int>(round); }));
    REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == static_cast<int>(round); }));
    CHECK(pair.a.links[pair.to_b].last_down == "it ended the connection: to see what happens");
    CHECK(pair.b.links[pair.to_a].last_down == "to see what happens");
    CHECK(pair.a.net->wait(pair.a.net->send(pair.to_b, talk, buffer), soon()).error().code == errc::peer_lost);
    if (round % 2 == 0) pair.a.dial(pair.b.net->address());
    if (round % 2 == 1) pair.b.dial(pair.a.net->address());
    CHECK(pair.a.wait_up(2) == pair.to_b);
    CHECK(pair.b.wait_up(1) == pair.to_a);
  }
}

TEST_CASE("fabric: what was posted before a close still arrives", "[net][fast]") {
  fabric_pair pair;
  pair.a.net->locked([&] {
    pair.a.net->post(pair.to_b, words("one"));
    pair.a.net->post(pair.to_b, std::vector<std::byte>(max_post_bytes));
    pair.a.net->post(pair.to_b, words("two"));
    pair.a.net->close(pair.to_b, "done");
    CHECK_FALSE(pair.a.net->is_up(pair.to_b));
    CHECK(pair.a.links[pair.to_b].downs == 0);  // told later
  });
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  REQUIRE(pair.b.links[pair.to_a].control.size() == 3);
  CHECK(pair.b.links[pair.to_a].control[2] == "two");
}

TEST_CASE("fabric: a fabric that is closed sends what was posted and says goodbye", "[net][fast]") {
  fabric_pair pair{{}, std::chrono::seconds{60}};  // a busy machine may take long to answer
  pair.a.post(pair.to_b, std::string(max_post_bytes, 'x'));
  pair.a.post(pair.to_b, "I leave");
  pair.a.net->close();
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  REQUIRE(pair.b.links[pair.to_a].control.size() == 2);
  CHECK(pair.b.links[pair.to_a].control[1] == "I leave");
  CHECK(pair.b.links[pair.to_a].last_down == "it left the run");
  CHECK(pair.a.links[pair.to_b].downs == 0);  // no events after close
  std::vector<std::byte> buffer(10);
  CHECK(pair.a.net->wait(pair.a.net->receive(pair.to_b, talk, buffer), soon()).error().code == errc::cancelled);
  CHECK(pair.a.net->block([] { return false; }, soon()).error().code == errc::cancelled);
}

TEST_CASE("fabric: handlers may dial, post, close and set the clock", "[net][fast]") {
  fabric_pair pair;
  fabric_peer c{3};
  pair.b.when_told = [&](peer_index link, const std::string& text) {
    fabric& net = *pair.b.net;
    if (text == "dial") net.dial(c.net->address());
    if (text == "echo") net.post(link, words("echo"));
    if (text == "wake") net.wake_at(net.now());
    if (text == "close") {
      net.close(link, "you asked for it");
      pair.b.orderly = pair.b.orderly && !net.is_up(link);
      net.post(link, words("lost"));
    }
  };
  for (const char* word : {"dial", "echo", "wake", "close"}) pair.a.post(pair.to_b, word);
  c.wait_up(2);
  REQUIRE(until(*pair.b.net, [&] { return pair.b.wakes == 1; }));
  REQUIRE(until(*pair.a.net, [&] { return pair.a.links[pair.to_b].downs == 1; }));
  CHECK(pair.a.links[pair.to_b].last_down == "it ended the connection: you asked for it");
  CHECK((pair.a.links[pair.to_b].control == std::vector<std::string>{"echo"}));
}

TEST_CASE("fabric: the last wish for a wake-up counts", "[net][fast]") {
  fabric_peer a{1};
  const time_point start = a.net->now();
  a.net->locked([&] {
    a.net->wake_at(start);
    a.net->wake_at(no_deadline);
    a.net->wake_at(start + std::chrono::milliseconds{30});
  });
  REQUIRE(until(*a.net, [&] { return a.wakes == 1; }));
  CHECK(a.net->now() - start >= std::chrono::milliseconds{30});
  a.net->locked([&] {
    a.net->wake_at(start);
    a.net->wake_at(no_deadline);
  });
  const auto nothing = a.net->block([&] { return a.wakes == 2; }, a.net->now() + std::chrono::milliseconds{20});
  REQUIRE(nothing);
  CHECK_FALSE(*nothing);
}

TEST_CASE("fabric: nobody there, ourselves, another run and a twin are told apart", "[net][fast]") {
  fabric_peer a{1};
  fabric_options other_run;
  other_run.run_id = test_run + 1;
  fabric_peer stranger{2, other_run};
  fabric_peer twin{1};
  std::string nobody;
  {
    const fabric_peer gone{9};
    nobody = gone.net->address();
  }
  const auto told = [&](const std::string& address) {
    const auto count = a.unreachable.size();
    a.dial(address);
    REQUIRE(until(*a.net, [&] { return a.unreachable.size() == count + 1; }));
    CHECK(a.unreachable.back().first == address);
    return a.unreachable.back().second;
  };
  CHECK(told(nobody).code == errc::unreachable);
  CHECK(told("nonsense").code == errc::invalid_argument);
  CHECK(told(a.net->address()).message == "that is this peer itself");
  CHECK(told(stranger.net->address()).code == errc::wrong_run);
  CHECK(told(stranger.net->address()).message.find("check the name and the seed of the run") != std::string::npos);
  CHECK(told(twin.net->address()).message.find("two peers have the id 1") != std::string::npos);
  CHECK(a.links.empty());
}

TEST_CASE("fabric: a dial of a peer whose connection stands changes nothing", "[net][fast]") {
  fabric_pair pair;
  for (fabric_peer* p : {&pair.a, &pair.b}) {
    const std::string other = p == &pair.a ? pair.b.net->address() : pair.a.net->address();
    p->dial(other);
    p->dial("localhost" + other.substr(other.find(':')));  // not known under this name: found out on the way
  }
  fabric_peer c{3};  // later than those dials
  pair.a.dial(c.net->address());
  pair.b.dial(c.net->address());
  pair.a.wait_up(3);
  pair.b.wait_up(3);
  CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, 1000, 1));
  for (fabric_peer* p : {&pair.a, &pair.b}) {
    p->net->locked([&] {
      CHECK(p->order.size() == 2);
      CHECK(p->unreachable.empty());
    });
  }
}

TEST_CASE("fabric: waits and blocks end when somebody asks the program to stop", "[net][fast]") {
  fabric_pair pair;
  std::vector<std::byte> buffer(100);
  const auto op = pair.a.net->receive(pair.to_b, talk, buffer);
  CHECK(pair.a.net->describe_waits().find("receiving from peer 2 (channel 1, epoch 4, step 5) for 0.") == 0);
  const auto interrupt = pair.a.net->interrupter();
  std::thread side{interrupt};
  CHECK(pair.a.net->wait(op, soon()).error().code == errc::cancelled);
  side.join();
  CHECK(pair.a.net->block([] { return false; }, soon()).error().code == errc::cancelled);
  CHECK(*pair.a.net->block([] { return true; }, soon()));
  pair.a.post(pair.to_b, "last words");
  pair.a.net.reset();
  interrupt();
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  CHECK((pair.b.links[pair.to_a].control == std::vector<std::string>{"last words"}));
}

TEST_CASE("fabric: control messages reach their handler while nobody is inside the fabric", "[net][fast]") {
  fabric_pair pair;
  std::atomic<int> heard{0};
  pair.b.when_told = [&](peer_index link, const std::string&) {
    ++heard;
    pair.b.net->post(link, words("ack"));
  };
  for (int n = 1; n <= 50; ++n) {
    pair.a.post(pair.to_b, "n");
    while (heard != n) std::this_thread::yield();  // computes: the fabrics' own threads do it all
  }
  REQUIRE(until(*pair.a.net, [&] { return pair.a.links[pair.to_b].control.size() == 50; }));
}

TEST_CASE("fabric: what is said before somebody listens waits for him", "[net][fast]") {
  fabric_peer a{1};
  fabric_options options;
  options.run_id = test_run;
  options.id = 2;
  auto quiet = open_fabric(endpoint{}, options);
  REQUIRE(quiet);
  a.dial((*quiet)->address());
  fabric_peer other{3};
  a.dial(other.net->address());
  const auto to_other = a.wait_up(3);
  CHECK_FALSE(a.link_to(2).has_value());
  fabric_peer late{4};
  std::swap(late.net, *quiet);
  (*quiet)->attach(nullptr);
  late.net->attach(&late);
  CHECK(a.wait_up(2) != to_other);
  late.wait_up(1);
}
