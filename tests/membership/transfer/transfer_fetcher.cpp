// SPDX-License-Identifier: Apache-2.0
#include <causeway/membership/transfer/transfer_fetcher.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "membership/transfer/transfer_net.hpp"
#include "support/catch.hpp"

using namespace transfer_test;

namespace {

bool is_answer(const std::vector<std::byte>& message, transfer_kind kind) {
  const bool packed = kind == transfer_kind::chunk && message.front() == std::byte{0x8B};
  return packed || message.front() == static_cast<std::byte>(kind);
}

}  // namespace

TEST_CASE("state transfer: any chunk that comes with wrong bytes is fetched elsewhere", "[membership][fast]") {
  const std::size_t chunks = fetch{1}.taker->image.chunks();
  rng random{1};
  for (std::uint64_t broken = 0; broken < chunks; ++broken) {
    for (const int how : {0, 1, 2}) {
      fetch f{2};
      unsigned changed = 0;
      // Whoever is asked for it first has a broken copy.
      net::peer_id who = 0;
      f.net.on_post = [&](net::peer_id from, net::peer_id, std::vector<std::byte>& message) {
        if (!is_answer(message, transfer_kind::chunk) || decode_transfer(message)->index != broken) return true;
        if (who == 0) who = from;
        if (from != who) return true;
        ++changed;
        // In the second half: before it a packed chunk has the lengths of codes, also of those that it does not use.
        const std::size_t half = message.size() / 2;
        if (how == 0) message[half + random.below(message.size() - half)] ^= static_cast<std::byte>(1U << random.below(8));
        if (how == 1) message.pop_back();
        if (how == 2) message.push_back(std::byte{0});
        return true;
      };
      f.start();
      CHECK(f.run() == status::complete);
      INFO("chunk " << broken << ", way " << how);
      CHECK(changed == 1);
      // The last one is short: the other holder is quicker with it, and all is there before the wrong one comes.
      if (broken + 1 < chunks) CHECK(f.progress().bad == 1);
      f.check_whole();
    }
  }
}

TEST_CASE("state transfer: a flipped bit anywhere in a manifest is noticed", "[membership][fast]") {
  for (std::size_t at = 33; at < 33 + 36; ++at) {
    fetch f{1};
    bool once = false;
    f.net.on_post = [&](net::peer_id, net::peer_id, std::vector<std::byte>& message) {
      if (is_answer(message, transfer_kind::manifest) && at < message.size() && !std::exchange(once, true)) {
        message[at] ^= std::byte{4};
      }
      return true;
    };
    f.start();
    CHECK(f.run() == status::complete);
    CHECK(f.progress().bad == 1);
    f.check_whole();
  }
}

TEST_CASE("state transfer: a chunk that comes wrong from every holder once is asked for again", "[membership][fast]") {
  fetch f{2};
  std::map<net::peer_id, unsigned> changed;
  f.net.on_post = [&](net::peer_id from, net::peer_id, std::vector<std::byte>& message) {
    if (is_answer(message, transfer_kind::chunk) && decode_transfer(message)->index == 4 && ++changed[from] == 1) {
      message.back() ^= std::byte{1};
    }
    return true;
  };
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.progress().bad == 2);
  f.check_whole();
}

TEST_CASE("state transfer: two wrong chunks, and a holder is asked no more", "[membership][fast]") {
  for (const std::size_t donors : {1U, 2U}) {
    fetch f{donors};
    f.net.on_post = [](net::peer_id from, net::peer_id, std::vector<std::byte>& message) {
      if (from == 1 && is_answer(message, transfer_kind::chunk)) message.back() ^= std::byte{1};
      return true;
    };
    f.start();
    CHECK(f.run() == (donors == 2 ? status::complete : status::failed));
    CHECK(f.progress().bad == 2);
    CHECK(f.progress().holders[0].banned);
    CHECK(f.progress().holders[0].bytes == 0);
    if (donors == 2) {
      f.check_whole();
    } else {
      CHECK(f.taking().failure().code == errc::corrupt);
    }
  }
}

TEST_CASE("state transfer: a holder lost at any message is made up for by another", "[membership][fast]") {
  fetch clean{2};
  clean.start();
  clean.run();
  for (std::uint64_t k = 1; k <= clean.net.posted; ++k) {
    fetch f{2};
    std::uint64_t count = 0;
    f.net.on_post = [&](net::peer_id, net::peer_id, std::vector<std::byte>&) {
      if (++count == k) f.net.at_time(f.net.now, [&] { f.net.cut(1, me); });
      return true;
    };
    f.start();
    CHECK(f.run() == status::complete);
    f.check_whole();
    f.net.run();
    CHECK(f.giving(1).outstanding() == 0);
  }
}

TEST_CASE("state transfer: the only holder may be lost at any message and come back", "[membership][fast]") {
  fetch clean{1};
  clean.start();
  clean.run();
  for (std::uint64_t k = 1; k <= clean.net.posted; ++k) {
    fetch f{1};
    std::uint64_t count = 0;
    f.net.on_post = [&](net::peer_id, net::peer_id, std::vector<std::byte>&) {
      if (++count != k) return true;
      f.net.at_time(f.net.now, [&] { f.net.cut(1, me); });
      f.net.at_time(f.net.now + 3s, [&] { f.net.mend(1, me); });
      return true;
    };
    f.start();
    CHECK(f.run() == status::complete);
    CHECK(f.net.now < time_point{8s});
    f.check_whole();
  }
}

TEST_CASE("state transfer: holders out of reach for long end it", "[membership][fast]") {
  fetch f{2};
  f.net.cut(1, me);
  f.net.cut(2, me);
  f.start();
  CHECK(f.run() == status::failed);
  CHECK(f.taking().failure().code == errc::peer_lost);
  CHECK(f.net.now == time_point{10s});
  f.holders.clear();
  f.start();
  CHECK(f.taking().failure().code == errc::peer_lost);
}

TEST_CASE("state transfer: a holder whose state moves on at any message leaves the rest to others", "[membership][fast]") {
  fetch clean{2};
  clean.start();
  clean.run();
  for (std::uint64_t k = 1; k < clean.net.posted; ++k) {
    for (const std::size_t donors : {1U, 2U}) {
      fetch f{donors};
      std::uint64_t count = 0;
      std::uint64_t sent = f.taker->image.chunks();  // when the state moved on, if it did before the end
      f.net.on_post = [&](net::peer_id, net::peer_id, std::vector<std::byte>&) {
        if (++count != k) return true;
        f.net.at_time(f.net.now, [&] {
          sent = f.giving(1).counted().chunks_sent;
          f.giving(1).withdraw();
          f.net.at(1).fill(1000);
          f.net.at(1).offer(2);
        });
        return true;
      };
      f.start();
      const status how = f.run();
      if (donors == 2) {
        REQUIRE(how == status::complete);
        REQUIRE(f.taking().commit(f.taker->image));
        CHECK(f.taker->state(1) == f.goal);
        CHECK(f.taker->values == f.net.at(2).values);
      } else if (how == status::failed) {
        CHECK(f.taking().failure().code == errc::not_found);
        CHECK(f.taking().newest_seen() == 2);
      } else {
        CHECK(sent == f.taker->image.chunks());  // all that was wanted was on its way
      }
    }
  }
}

TEST_CASE("state transfer: a holder that has the state only later is asked again", "[membership][fast]") {
  fetch f{1};
  f.giving(1).withdraw();
  f.net.at_time(time_point{2s}, [&] { f.net.at(1).offer(1); });
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.net.now < time_point{5s});
  f.check_whole();

  fetch never{1};
  never.giving(1).withdraw();
  never.start();
  CHECK(never.run() == status::failed);
  CHECK(never.taking().failure().code == errc::not_found);
}

TEST_CASE("state transfer: a holder of one byte a second costs no more than it takes to notice", "[membership][fast]") {
  fetch quick{2, 10'000'000};
  quick.start();
  quick.run();
  for (const net::peer_id slow : {1U, 2U, 3U}) {
    fetch f{3, 10'000'000};
    f.net.set_line(me, slow, 1, 20ms);
    f.start();
    CHECK(f.run() == status::complete);
    // Holder 1 is asked for the manifest before anything is known of anybody; the others have quicker ones beside them.
    const duration notice = slow == 1 ? transfer_options{}.first_answer : 1s;
    CAPTURE(slow, seconds(f.net.now.since_start), seconds(quick.net.now.since_start));
    CHECK(f.net.now.since_start < quick.net.now.since_start + notice + 100ms);
    f.check_whole();
  }
}

TEST_CASE("state transfer: a holder that falls silent in the middle costs no more than it takes to notice",
          "[membership][fast]") {
  fetch quick{3, 10'000'000};
  quick.start();
  quick.run();
  fetch f{3, 10'000'000};
  f.net.on_post = [&](net::peer_id from, net::peer_id, std::vector<std::byte>&) {
    return from != 2 || f.net.now < time_point{500ms};
  };
  f.start();
  CHECK(f.run() == status::complete);
  CHECK(f.net.now.since_start < quick.net.now.since_start * 3 / 2 + 1s);
  f.check_whole();
}

TEST_CASE("state transfer: when all holders are silent it ends", "[membership][fast]") {
  fetch f{2};
  f.net.on_post = [](net::peer_id from, net::peer_id, std::vector<std::byte>&) { return from == me; };
  f.start();
  CHECK(f.run() == status::failed);
  CHECK(f.taking().failure().code == errc::timeout);
}

TEST_CASE("state transfer: a state of another layout is refused with both sizes", "[membership][fast]") {
  fetch f{1};
  f.taker->values.resize(599'999);
  f.taker->remake();
  f.start();
  CHECK(f.run() == status::failed);
  CHECK(f.taking().failure().code == errc::wrong_model);
  CHECK(f.taking().failure().message.find("part 0 has 2399996 bytes here and 2400000 there") != std::string::npos);
}

TEST_CASE("state transfer: chunks that nobody asked for change nothing", "[membership][fast]") {
  fetch f{2};
  f.start();
  f.net.at(2).fill(3);
  std::vector<std::byte> content(default_chunk_bytes);
  for (std::uint64_t i = 0; i < 30; ++i) {
    const transfer_message m{.kind = transfer_kind::chunk, .what = f.goal, .index = i * i, .ticket = i, .content = content};
    (void)f.taker->transfer.message(2, encode(m), f.net.now);
    (void)f.taker->transfer.message(77, encode(m), f.net.now);
  }
  CHECK(f.progress().unasked == 60);
  CHECK(f.progress().bytes_done == 0);
}
