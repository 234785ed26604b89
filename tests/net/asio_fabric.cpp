// SPDX-License-Identifier: Apache-2.0
#include <causeway/net/asio_fabric.hpp>

#include "support/catch.hpp"
#include "support/fabric_peers.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

const message_id talk{.channel = 1, .epoch = 4, .step = 5, .parent = 9};

message_id in_epoch(std::uint32_t epoch, std::uint64_t step = 5) {
  return {.channel = 1, .epoch = epoch, .step = step, .parent = 9};
}

/// Sends from one fabric to the other and compares.
bool passes(fabric& from, peer_index to, fabric& at, peer_index of, std::size_t size, std::uint64_t step) {
  const auto sent = pattern(size, 3);
  std::vector<std::byte> got(size);
  const auto in = at.receive(of, in_epoch(4, step), got);
  const auto out = from.send(to, in_epoch(4, step), sent);
  bool went = false;
  std::thread other{[&] { went = from.wait(out, soon()).has_value(); }};
  const auto outcome = at.wait(in, soon());
  other.join();
  return went && outcome && got == sent;
}

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

TEST_CASE("fabric: a new epoch ends the operations of older ones at once, on any thread", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.socket_buffer = std::size_t{1} << 20U;
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);  // more than the kernel and b take
  std::vector<std::byte> buffer(100);
  std::vector<std::byte> later(100);
  std::vector<operation> ops{pair.a.net->receive(pair.to_b, in_epoch(4), buffer),
                             pair.a.net->send(pair.to_b, in_epoch(5), sent)};
  const auto stays = pair.a.net->receive(pair.to_b, in_epoch(6), later);
  std::atomic<bool> waiting{false};
  std::vector<errc> ends;
  std::thread trainer{[&] {
    waiting = true;
    for (const operation op : ops) ends.push_back(pair.a.net->wait(op, soon()).error().code);
  }};
  while (!waiting) std::this_thread::yield();
  pair.a.net->locked([&] { pair.a.net->cancel_before(6); });
  trainer.join();
  CHECK((ends == std::vector<errc>{errc::cancelled, errc::cancelled}));
  CHECK(pair.a.net->wait(pair.a.net->send(pair.to_b, in_epoch(5), sent), soon()).error().code == errc::cancelled);
  // What b still sends of the old epochs is dropped and counted; the new epoch goes on.
  const auto rejected = pair.a.net->stats().frames_rejected;
  const auto note = pattern(100, 2);
  for (const std::uint32_t epoch : {4U, 5U, 6U}) {
    REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(epoch), note), soon()));
  }
  REQUIRE(pair.a.net->wait(stays, soon()));
  CHECK((later == note));
  CHECK((buffer == std::vector<std::byte>(100)));
  CHECK(pair.a.net->stats().frames_rejected == rejected + 2);
  CHECK(pair.a.links[pair.to_b].downs == 0);
}

TEST_CASE("fabric: an epoch that is over stays over when the link is made again", "[net][fast]") {
  fabric_pair pair;
  pair.a.net->locked([&] {
    pair.a.net->cancel_before(6);
    pair.a.net->close(pair.to_b, "again");
  });
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].downs == 1; }));
  pair.b.dial(pair.a.net->address());
  pair.b.wait_up(1);
  pair.a.wait_up(2);
  const auto note = pattern(100, 2);
  std::vector<std::byte> buffer(100);
  const auto in = pair.a.net->receive(pair.to_b, in_epoch(6), buffer);
  for (const std::uint32_t epoch : {5U, 6U}) {
    REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(epoch), note), soon()));
  }
  REQUIRE(pair.a.net->wait(in, soon()));
  CHECK(pair.a.net->stats().frames_rejected == 1);
}

TEST_CASE("fabric: what is said in a lasting epoch goes on while views end", "[net][fast]") {
  fabric_pair pair;
  const auto note = pattern(100, 3);
  std::vector<std::byte> buffer(100), late(100);
  const auto in = pair.a.net->receive(pair.to_b, in_epoch(lasting_epoch(7)), buffer);
  pair.a.net->locked([&] { pair.a.net->cancel_before(6); });
  REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(lasting_epoch(7)), note), soon()));
  REQUIRE(pair.a.net->wait(in, soon()));
  CHECK((buffer == note));
  const auto over = pair.a.net->receive(pair.to_b, in_epoch(lasting_epoch(7)), late);
  const auto of_a_view = pair.a.net->receive(pair.to_b, in_epoch(6), buffer);
  pair.a.net->locked([&] { pair.a.net->cancel_before(lasting_epoch(8)); });
  CHECK(pair.a.net->wait(over, soon()).error().code == errc::cancelled);
  REQUIRE(pair.b.net->wait(pair.b.net->send(pair.to_a, in_epoch(6), note), soon()));
  CHECK(pair.a.net->wait(of_a_view, soon()));
}

TEST_CASE("fabric: a cancelled receive's buffer is free at once, also in the middle of its message", "[net][fast]") {
  fabric_peer a{5};
  raw_fabric_peer b{a.net->address(), 9};
  const auto serial = b.connect();
  REQUIRE(serial);
  const peer_index link = a.wait_up(9);
  raw_fabric_peer data{a.net->address(), 9};
  data.open_stream(*serial);
  const auto content = pattern(100'000, 1);
  std::vector<std::byte> buffer(content.size());
  const auto in = a.net->receive(link, in_epoch(4), buffer);
  const auto half_of = [&](std::uint32_t epoch, bool second) {
    if (!second) data.socket.write(data.chunk(in_epoch(epoch), epoch - 4, content));
    data.socket.write(std::span{content}.subspan(second ? content.size() / 2 : 0, content.size() / 2));
  };
  const auto before = a.net->stats().bytes_received;
  half_of(4, false);
  while (a.net->stats().bytes_received < before + header_bytes + content.size() / 2) std::this_thread::yield();
  a.net->locked([&] { a.net->cancel_before(5); });
  std::vector<std::byte>{}.swap(buffer);  // the address sanitizer watches
  CHECK(a.net->wait(in, soon()).error().code == errc::cancelled);
  half_of(4, true);  // the rest is read and dropped
  std::vector<std::byte> next(content.size());
  const auto after = a.net->receive(link, in_epoch(5), next);
  half_of(5, false);
  half_of(5, true);
  REQUIRE(a.net->wait(after, soon()));
  CHECK((next == content));
  std::vector<std::byte> small(10);
  CHECK(a.net->wait(a.net->receive(link, in_epoch(4), small), soon()).error().code == errc::cancelled);
}

TEST_CASE("fabric: control messages pass data that nobody reads, and bulk waits behind it", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.socket_buffer = std::size_t{1} << 20U;
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);
  const auto out = pair.a.net->send(pair.to_b, in_epoch(4), sent);  // b keeps 1 MiB of it and reads no further
  pair.a.post(pair.to_b, "bulk", true);
  pair.a.post(pair.to_b, "urgent");
  REQUIRE(until(*pair.b.net, [&] { return !pair.b.links[pair.to_a].control.empty(); }));
  CHECK(pair.b.links[pair.to_a].control[0] == "urgent");
  std::vector<std::byte> got(sent.size());
  REQUIRE(pair.b.net->wait(pair.b.net->receive(pair.to_a, in_epoch(4), got), soon()));
  CHECK((got == sent));
  REQUIRE(pair.a.net->wait(out, soon()));
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 2; }));
  CHECK(pair.b.links[pair.to_a].control[1] == "bulk");
}

TEST_CASE("fabric: data that does not move holds no bulk up, and is no sign of death", "[net][fast]") {
  fabric_options options;
  options.transport.unexpected_bytes = std::size_t{1} << 20U;
  options.transport.heartbeat = std::chrono::milliseconds{20};
  options.transport.silence = std::chrono::seconds{2};
  fabric_pair pair{options};
  const auto sent = pattern(30'000'000, 1);
  const auto out = pair.a.net->send(pair.to_b, in_epoch(4), sent);
  pair.a.post(pair.to_b, "bulk", true);
  REQUIRE(until(*pair.b.net, [&] { return pair.b.links[pair.to_a].control.size() == 1; }));
  CHECK(pair.b.links[pair.to_a].control[0] == "bulk");
  pair.b.net->locked([&] { pair.b.net->wake_at(pair.b.net->now() + std::chrono::seconds{3}); });
  REQUIRE(until(*pair.b.net, [&] { return pair.b.wakes == 1; }));
  std::vector<std::byte> got(sent.size());
  REQUIRE(pair.b.net->wait(pair.b.net->receive(pair.to_a, in_epoch(4), got), soon()));
  CHECK((got == sent));
  REQUIRE(pair.a.net->wait(out, soon()));
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

TEST_CASE("fabric: work that blocks aside holds up neither data nor control messages, and its end is an event",
          "[net][fast]") {
  fabric_pair pair;
  std::promise<void> gate;
  std::vector<int> ends;
  pair.a.net->locked([&] {
    pair.a.net->aside([open = gate.get_future().share()] { open.wait(); }, [&] { ends.push_back(1); });
    pair.a.net->aside([] {}, [&] { ends.push_back(2); });
  });
  CHECK(passes(*pair.a.net, pair.to_b, *pair.b.net, pair.to_a, 70'000, 1));
  CHECK(passes(*pair.b.net, pair.to_a, *pair.a.net, pair.to_b, 70'000, 2));
  pair.b.post(pair.to_a, "hello");
  REQUIRE(until(*pair.a.net, [&] { return pair.a.links[pair.to_b].control.size() == 1; }));
  pair.a.net->locked([&] { CHECK(ends.empty()); });
  gate.set_value();
  REQUIRE(until(*pair.a.net, [&] { return ends.size() == 2; }));
  CHECK(ends == std::vector<int>{1, 2});
}

TEST_CASE("fabric: who detaches hears no more of work aside, and none is under way", "[net][fast]") {
  fabric_peer a{7};
  std::promise<void> gate;
  bool worked = false;
  bool told = false;
  a.net->locked([&] {
    a.net->aside(
        [&, open = gate.get_future().share()] {
          open.wait();
          worked = true;
        },
        [&] { told = true; });
  });
  gate.set_value();
  a.net->attach(nullptr);
  CHECK(worked);
  a.net->locked([&] { told = false; });  // it may have been told before
  CHECK_FALSE(a.net->block([&] { return told; }, a.net->now()).value());
}
