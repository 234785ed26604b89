// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/disk.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/io/storage.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cw = causeway;
namespace io = causeway::io;
namespace sim = causeway::sim;

namespace {

io::byte_vector filled(std::size_t length, int value) { return io::byte_vector(length, static_cast<std::byte>(value)); }

std::string text_of(const io::byte_vector& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A file with that content, not synced, in the root folder.
sim::disk::file_type put(sim::disk& disk, const std::string& path, const io::byte_vector& content) {
  auto file = disk.create(path).value();
  REQUIRE(disk.write(file, content));
  return file;
}

// A durable file.
void keep(sim::disk& disk, const std::string& path, const io::byte_vector& content) {
  auto file = put(disk, path, content);
  REQUIRE(disk.sync(file));
  REQUIRE(disk.sync_folder("/"));
}

// Every outcome of a crash: walks the tree of choices depth first, and calls `look` with the disk after each.
template <class Look>
std::size_t every_crash(const sim::disk& before, Look look) {
  std::vector<std::uint64_t> taken;
  std::vector<std::uint64_t> bounds;
  std::size_t outcomes = 0;
  for (;;) {
    std::size_t depth = 0;
    bounds.resize(taken.size());
    sim::disk after = before.clone();
    after.crash([&](std::uint64_t bound) {
      if (depth == taken.size()) {
        taken.push_back(0);
        bounds.push_back(bound);
      }
      bounds[depth] = bound;
      return taken[depth++];
    });
    look(after);
    ++outcomes;
    while (!taken.empty() && taken.back() + 1 == bounds[taken.size() - 1]) taken.pop_back();
    if (taken.empty()) return outcomes;
    ++taken.back();
  }
}

std::set<std::string> names(sim::disk& disk) {
  const auto list = disk.list("/").value();
  return {list.begin(), list.end()};
}

}  // namespace

TEST_CASE("disk: keeps the contract of a storage, and copies share it", "[sim][fast]") {
  sim::disk disk;
  io::any_storage storage{io::basic_file_storage<sim::disk>{disk}};
  CHECK(storage.read("run/x").error().code == cw::errc::not_found);
  CHECK(storage.list("run").error().code == cw::errc::not_found);
  REQUIRE(storage.write_atomic("/run/deep/x", io::produce("one")));
  REQUIRE(storage.write_atomic("run/deep//x", io::produce("two")));
  CHECK(text_of(storage.read("./run/deep/x").value()) == "two");
  const auto stopped = storage.write_atomic("run/deep/x", [](const io::byte_sink& sink) -> cw::result<void> {
    CAUSEWAY_TRY(io::produce("half")(sink));
    return cw::fail(cw::errc::cancelled, "test", "stopped");
  });
  CHECK(stopped.error().code == cw::errc::cancelled);
  CHECK(text_of(disk.read("run/deep/x").value()) == "two");
  REQUIRE(storage.write_atomic("run/deep/another", io::produce("")));
  CHECK(storage.list("run/deep").value() == std::vector<std::string>{"another", "x"});
  REQUIRE(storage.remove("run/deep/x"));
  REQUIRE(storage.remove("run/deep/x"));
  CHECK(storage.list("run/deep").value() == std::vector<std::string>{"another"});
  CHECK(storage.list("run").value().empty());
}

TEST_CASE("disk: what was synced with its folder survives every crash, byte for byte", "[sim][fast]") {
  sim::disk disk;
  keep(disk, "a", filled(10'000, 7));
  CHECK(every_crash(disk, [](sim::disk& after) { REQUIRE(after.read("a").value() == filled(10'000, 7)); }) == 1);
  io::basic_file_storage<sim::disk> storage{disk};
  REQUIRE(storage.write_atomic("run/peer/b", io::produce("durable with its folders")));
  CHECK(every_crash(disk, [](sim::disk& after) { REQUIRE(after.read("run/peer/b")); }) == 1);
}

TEST_CASE("disk: bytes synced without their folder may lose their name, a name synced without bytes its bytes",
          "[sim][fast]") {
  sim::disk disk;
  auto a = put(disk, "a", filled(100, 7));
  REQUIRE(disk.sync(a));
  std::set<std::string> seen;
  every_crash(disk, [&](sim::disk& after) {
    const auto content = after.read("a");
    seen.insert(content ? "there" : "gone");
    if (content) REQUIRE(*content == filled(100, 7));
  });
  CHECK(seen == std::set<std::string>{"gone", "there"});

  sim::disk other;
  put(other, "b", filled(100, 7));
  REQUIRE(other.sync_folder("/"));
  std::set<io::byte_vector> contents;
  every_crash(other, [&](sim::disk& after) { contents.insert(after.read("b").value()); });
  CHECK(contents == std::set<io::byte_vector>{{}, filled(100, 0), filled(100, 7)});
}

TEST_CASE("disk: pages that were not synced persist in any subset, torn between sectors but not inside", "[sim][fast]") {
  const auto outcomes = [](std::size_t page, std::size_t sector, std::size_t length) {
    sim::disk disk{{.page_bytes = page, .sector_bytes = sector}};
    keep(disk, "a", filled(length, 1));
    put(disk, "a", filled(length, 2));  // emptied, then written anew
    std::set<std::string> seen;
    every_crash(disk, [&](sim::disk& after) {
      const auto content = after.read("a").value();
      std::string pattern;
      for (std::size_t at = 0; at < content.size(); at += sector) {
        const auto end = std::min(at + sector, content.size());
        REQUIRE(std::all_of(content.begin() + static_cast<std::ptrdiff_t>(at),
                            content.begin() + static_cast<std::ptrdiff_t>(end),
                            [&](std::byte b) { return b == content[at]; }));
        pattern += static_cast<char>('0' + static_cast<int>(content[at]));
      }
      seen.insert(pattern);
    });
    return seen;
  };
  // Two whole pages: each old or new, or the file is empty between the two.
  CHECK(outcomes(512, 512, 1024) == std::set<std::string>{"", "11", "12", "21", "22"});
  // One page of two sectors: the same states, now inside a page.
  CHECK(outcomes(1024, 512, 1024) == std::set<std::string>{"", "11", "12", "21", "22"});
  CHECK(outcomes(1024, 1024, 1024) == std::set<std::string>{"", "1", "2"});
}

TEST_CASE("disk: a file that grows may have any of its lengths, with zeros where bytes did not arrive", "[sim][fast]") {
  sim::disk disk{{.page_bytes = 512}};
  auto a = disk.create("a").value();
  REQUIRE(disk.sync_folder("/"));
  for (const int piece : {1, 2, 3}) REQUIRE(disk.write(a, filled(512, piece)));
  std::set<std::string> seen;
  every_crash(disk, [&](sim::disk& after) {
    std::string pattern;
    const auto content = after.read("a").value();
    for (std::size_t at = 0; at < content.size(); at += 512)
      pattern += static_cast<char>('0' + static_cast<int>(content[at]));
    seen.insert(pattern);
  });
  CHECK(seen == std::set<std::string>{"", "0", "1", "00", "02", "10", "12", "000", "003", "020", "023", "100", "103", "120",
                                      "123"});
}

TEST_CASE("disk: names that were not synced persist in any subset; a rename moves at once", "[sim][fast]") {
  sim::disk disk;
  for (const char* name : {"a", "b"}) keep(disk, name, filled(1, 1));
  REQUIRE(disk.rename("a", "c"));
  REQUIRE(disk.unlink("b"));
  std::set<std::set<std::string>> seen;
  every_crash(disk, [&](sim::disk& after) { seen.insert(names(after)); });
  CHECK(seen == std::set<std::set<std::string>>{{"a", "b"}, {"a"}, {"b", "c"}, {"c"}});
}

TEST_CASE("disk: names may persist in another order than they were made", "[sim][fast]") {
  sim::disk disk;
  keep(disk, "old", filled(1, 1));
  keep(disk, "new", filled(1, 2));
  REQUIRE(disk.rename("old", "x"));
  REQUIRE(disk.rename("new", "x"));
  std::set<int> seen;
  every_crash(disk, [&](sim::disk& after) {
    if (const auto x = after.read("x")) seen.insert(static_cast<int>(x->front()) + (names(after).size() == 1 ? 10 : 0));
  });
  CHECK(seen == std::set<int>{1, 2, 11, 12});  // 11: both renames, the first one last
}

TEST_CASE("disk: a failed sync drops pages for good, and trying again reports success without writing them",
          "[sim][fast]") {
  sim::disk disk;
  keep(disk, "a", filled(100, 1));
  auto a = put(disk, "a", filled(100, 2));
  disk.set_faults({.fail_sync = 1});
  const auto failed = disk.sync(a);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == cw::errc::io_failed);
  CHECK(disk.read("a").value() == filled(100, 2));  // the cache still shows them
  REQUIRE(disk.sync(a));
  std::size_t lost = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    sim::disk again{{.seed = seed}};
    keep(again, "a", filled(100, 1));
    auto file = put(again, "a", filled(100, 2));
    again.set_faults({.fail_sync = 1});
    REQUIRE_FALSE(again.sync(file));
    REQUIRE(again.sync(file));
    again.crash();
    const auto content = again.read("a").value();
    REQUIRE((content == filled(100, 1) || content == filled(100, 2)));
    lost += content == filled(100, 1) ? 1 : 0;
    // A new file is not touched by it.
    keep(again, "b", filled(100, 3));
    again.crash();
    REQUIRE(again.read("b").value() == filled(100, 3));
  }
  CHECK(lost > 0);
  CHECK(lost < 20);
}

TEST_CASE("disk: the n-th call of a kind fails, once, and a full disk takes what fits", "[sim][fast]") {
  sim::disk disk;
  auto a = put(disk, "a", filled(10, 1));
  disk.set_faults({.fail_create = 1, .fail_write = 2, .fail_rename = 1, .fail_unlink = 1, .fail_read = 1});
  CHECK(disk.create("b").error().code == cw::errc::io_failed);
  REQUIRE(disk.create("b"));
  REQUIRE(disk.write(a, filled(10, 1)));
  CHECK(disk.write(a, filled(10, 1)).error().code == cw::errc::io_failed);
  REQUIRE(disk.write(a, filled(10, 1)));
  CHECK_FALSE(disk.rename("a", "c"));
  REQUIRE(disk.rename("a", "c"));
  CHECK_FALSE(disk.unlink("b"));
  REQUIRE(disk.unlink("b"));
  CHECK_FALSE(disk.read("c"));
  const std::size_t used = disk.read("c").value().size();
  CHECK(used >= 30);
  CHECK(used <= 40);
  disk.set_faults({.capacity = used + 5});
  CHECK(disk.write(a, filled(10, 1)).error().code == cw::errc::disk_full);
  CHECK(disk.read("c").value().size() == used + 5);
  REQUIRE(disk.unlink("c"));
  CHECK(disk.create("d"));
}

TEST_CASE("disk: after it halted nothing works until the reboot, and faults are gone", "[sim][fast]") {
  sim::disk disk;
  keep(disk, "a", filled(10, 1));
  const auto before = disk.operations();
  disk.set_faults({.halt = 2});
  auto b = disk.create("b").value();
  CHECK(disk.write(b, filled(10, 2)).error().message.find("stopped") != std::string::npos);
  CHECK_FALSE(disk.sync(b));
  CHECK_FALSE(disk.read("a"));
  CHECK_FALSE(disk.list("/"));
  CHECK(disk.operations() == before + 2);
  disk.crash();
  CHECK(disk.read("a").value() == filled(10, 1));
  CHECK_FALSE(disk.write(b, filled(1, 1)));  // opened in an earlier life
}

TEST_CASE("disk: a killed process loses nothing but its open files", "[sim][fast]") {
  sim::disk disk;
  auto a = put(disk, "a", filled(10, 1));
  disk.kill();
  CHECK(disk.read("a").value() == filled(10, 1));
  CHECK_FALSE(disk.write(a, filled(1, 1)));
  CHECK_FALSE(disk.sync(a));
}

TEST_CASE("disk: a flipped bit stays flipped over a reboot; a clone is another disk", "[sim][fast]") {
  sim::disk disk;
  keep(disk, "a", filled(10, 0));
  sim::disk other = disk.clone();
  REQUIRE(disk.flip("a", 8 * 10 + 3));
  disk.crash();
  CHECK(disk.read("a").value().front() == std::byte{8});
  CHECK(other.read("a").value() == filled(10, 0));
  CHECK(disk.flip("b", 0).error().code == cw::errc::not_found);
  CHECK(disk.flip_any());
  CHECK_FALSE(sim::disk{}.flip_any());
}

TEST_CASE("disk: the same seed leaves the same state", "[sim][fast]") {
  const auto left = [](std::uint64_t seed) {
    sim::disk disk{{.seed = seed, .page_bytes = 1024}};
    for (const char* name : {"a", "b", "c", "d"}) put(disk, name, filled(5000, 9));
    disk.crash();
    std::string state;
    for (const auto& name : names(disk)) state += name + text_of(disk.read(name).value());
    return state;
  };
  std::set<std::string> states;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    states.insert(left(seed));
    REQUIRE(left(seed) == left(seed));
  }
  CHECK(states.size() > 10);
}
