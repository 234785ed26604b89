// SPDX-License-Identifier: Apache-2.0
// A checkpoint is whole or absent, and an acknowledged one is never lost: io::checkpoint_directory on a disk that crashes,
// fails and flips bits, with every state that POSIX allows. The controls at the end leave out one care each and must be
// caught, so that these tests can fail.
#include <causeway/io/checkpoint.hpp>
#include <causeway/sim/disk.hpp>

#include <causeway/core/rng.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/io/section_file.hpp>

#include "sim/saved_checkpoints.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace checkpoints;

namespace {

struct tally {
  std::size_t crash_points = 0;
  std::size_t outcomes = 0;
  std::string violation;  // the first one
};

// Saves `saves` times with the power failing at every single operation, and looks at every outcome of each crash.
tally exhaust(std::uint64_t saves, std::size_t most, const setting& set, sim::disk_faults faults = {}) {
  tally sum;
  for (std::uint64_t n = 1; sum.violation.empty(); ++n) {
    sim::disk disk{{.seed = n}};
    faults.halt = n;
    disk.set_faults(faults);
    knowledge known;
    auto checkpoints = open(disk, set);
    for (std::uint64_t step = 1; step <= saves; ++step) (void)save(checkpoints, known, {step, n}, set);
    ++sum.crash_points;
    sum.outcomes += every_crash(disk, most, [&](const sim::disk& after) {
      auto reopened = open(after, set);
      if (sum.violation.empty()) sum.violation = violation(reopened, known, set);
      if (!sum.violation.empty()) sum.violation += "; power off at operation " + std::to_string(n);
    });
    if (disk.operations() < n) return sum;  // the power outlived the saves
  }
  return sum;
}

// Which faults a random life has.
struct dangers {
  bool failures = true;  // EIO, full disk
  bool kills = true;     // of the process alone
  bool flips = true;
};

// One disk that a peer lives through many crashes with. Stops at the first violation.
class long_life {
 public:
  long_life(std::uint64_t seed, const setting& set, const dangers& faults)
      : draws_{seed, 1}, set_{set}, dangers_{faults}, disk_{{.seed = seed, .sector_bytes = seed % 2 == 0 ? 512U : 4096U}} {}

  tally live(std::size_t crashes) {
    tally sum;
    for (; sum.crash_points < crashes && sum.violation.empty(); ++sum.crash_points) {
      disk_.set_faults(draw_faults());
      auto checkpoints = open(disk_, set_);
      sum.violation = resume(checkpoints);
      const std::uint64_t saves = 1 + draws_.below(6);
      for (std::uint64_t i = 0; i < saves; ++i) save_next(checkpoints);
      end();
      ++sum.outcomes;
    }
    return sum;
  }

 private:
  sim::disk_faults draw_faults() {
    sim::disk_faults faults{.halt = 1 + draws_.below(90)};
    if (!dangers_.failures || draws_.below(2) == 0) return faults;
    switch (draws_.below(7)) {
      case 0: faults.fail_create = 1 + draws_.below(5); break;
      case 1: faults.fail_write = 1 + draws_.below(20); break;
      case 2: faults.fail_sync = 1 + draws_.below(5); break;
      case 3: faults.fail_sync_folder = 1 + draws_.below(12); break;
      case 4: faults.fail_rename = 1 + draws_.below(5); break;
      case 5: faults.fail_unlink = 1 + draws_.below(5); break;
      default: faults.capacity = set_.large ? 20'000 + draws_.below(40'000) : 500 + draws_.below(1'000); break;
    }
    return faults;
  }

  std::string resume(directory& checkpoints) {
    saved loaded;
    std::string wrong = violation(checkpoints, known_, set_, &loaded);
    step_ = loaded.step;
    return wrong;
  }

  void save_next(directory& checkpoints) {
    if (!save(checkpoints, known_, {++step_, ++tag_}, set_)) return;
    ++since_flip_;
    set_.flips = since_flip_ >= 2 ? 0 : set_.flips;  // both files that could have been hit are gone
  }

  void end() {
    if (dangers_.kills && draws_.below(4) == 0) {
      disk_.kill();
      return;
    }
    disk_.crash();
    if (dangers_.flips && set_.flips == 0 && since_flip_ >= 2 && draws_.below(3) == 0 && disk_.flip_any()) {
      set_.flips = 1;
      since_flip_ = 0;
    }
  }

  cw::rng draws_;
  setting set_;
  dangers dangers_;
  sim::disk disk_;
  knowledge known_;
  std::uint64_t step_ = 0;
  std::uint64_t tag_ = 0;
  std::uint64_t since_flip_ = 0;
};

tally many_lives(std::size_t crash_points, const setting& set, const dangers& faults, std::size_t per_life = 25) {
  tally sum;
  for (std::uint64_t seed = 0; sum.crash_points < crash_points && sum.violation.empty(); ++seed) {
    const tally one = long_life{seed, set, faults}.live(per_life);
    sum.crash_points += one.crash_points;
    if (!one.violation.empty()) sum.violation = one.violation + "; life " + std::to_string(seed);
  }
  return sum;
}

// One small file that is replaced again and again, as the durable record of a peer is: it must never be torn, nor older
// than the last acknowledged content. Halts at every operation and looks at every outcome.
tally replace_again_and_again(const setting& set) {
  const std::string path = std::string{folder} + "/record";
  tally sum;
  for (std::uint64_t n = 1; sum.violation.empty(); ++n) {
    sim::disk disk{{.seed = n}};
    disk.set_faults({.halt = n});
    io::basic_file_storage<careless> storage{careless{disk, set.missing}};
    std::uint64_t acknowledged = 0;
    for (std::uint64_t i = 1; i <= 4; ++i) {
      const auto content = bytes_of({i, 0}, false);
      if (storage.write_atomic(path, io::produce(content))) acknowledged = i;
    }
    ++sum.crash_points;
    sum.outcomes += every_crash(disk, 10'000, [&](sim::disk& after) {
      const auto found = after.read(path);
      bool right = !found && acknowledged == 0;
      for (std::uint64_t i = std::max<std::uint64_t>(acknowledged, 1); i <= 4 && found; ++i) {
        right = right || *found == bytes_of({i, 0}, false);
      }
      if (!right) sum.violation = "torn or old; halted at operation " + std::to_string(n);
    });
    if (disk.operations() < n) return sum;
  }
  return sum;
}

// Flips `count` bits, one at a time, in files of many shapes. Gives how many flips a reader did not notice.
std::size_t unnoticed_flips(std::size_t count, std::uint64_t seed) {
  cw::rng draws{seed, 2};
  std::size_t unnoticed = 0;
  io::byte_vector file;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 500 == 0) {
      const saved what{draws.below(1000), draws.next()};
      std::vector<io::section> sections = sections_of(what, false);
      for (std::uint64_t more = draws.below(4); more > 0; --more) {
        sections.emplace_back("section " + std::to_string(more), 1, io::byte_vector(draws.below(200), std::byte{1}));
      }
      file.clear();
      REQUIRE(io::write_sections(
          [&](std::span<const std::byte> piece) -> cw::result<void> {
            file.insert(file.end(), piece.begin(), piece.end());
            return {};
          },
          {draws.next(), what.step}, sections));
      REQUIRE(io::section_file::parse(file, "whole"));
    }
    const std::uint64_t bit = draws.below(8 * file.size());
    file[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto read = io::section_file::parse(file, "flipped");
    unnoticed += read || read.error().code != cw::errc::corrupt ? 1 : 0;
    file[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  return unnoticed;
}

}  // namespace

TEST_CASE("checkpoint crash: halted at every operation, every outcome: the newest acknowledged state is there",
          "[sim][fast]") {
  const tally small = exhaust(5, 10'000, {});
  CHECK(small.violation == "");
  CHECK(small.crash_points > 50);
  CHECK(small.outcomes > 10 * small.crash_points);
  const tally large = exhaust(3, 200, {.large = true});
  CHECK(large.violation == "");
}

TEST_CASE("checkpoint crash: a record that is replaced is never torn and never older than acknowledged", "[sim][fast]") {
  const tally sum = replace_again_and_again({});
  CHECK(sum.violation == "");
  CHECK(sum.crash_points > 20);
}

TEST_CASE("checkpoint crash: the same after any single call failed", "[sim][fast]") {
  std::size_t crash_points = 0;
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    for (const sim::disk_faults& faults : {sim::disk_faults{.fail_create = nth}, sim::disk_faults{.fail_write = nth},
                                           sim::disk_faults{.fail_sync = nth}, sim::disk_faults{.fail_sync_folder = nth},
                                           sim::disk_faults{.fail_rename = nth}, sim::disk_faults{.fail_unlink = nth},
                                           sim::disk_faults{.fail_read = nth}, sim::disk_faults{.capacity = 200 * nth}}) {
      const tally sum = exhaust(4, 60, {}, faults);
      CHECK(sum.violation == "");
      crash_points += sum.crash_points;
    }
  }
  CHECK(crash_points > 500);
}

TEST_CASE("checkpoint crash: lives of many crashes, kills, failures and flipped bits", "[sim][fast]") {
  const tally small = many_lives(500, {}, {});
  CHECK(small.violation == "");
  const tally large = many_lives(500, {.large = true}, {});
  CHECK(large.violation == "");
}

TEST_CASE("checkpoint crash: a hundred thousand crashes", "[sim][.long]") {
  const tally small = many_lives(100'000, {}, {});
  CHECK(small.violation == "");
  const tally large = many_lives(20'000, {.large = true}, {});
  CHECK(large.violation == "");
}

TEST_CASE("checkpoint crash: every flipped bit is noticed", "[sim][fast]") { CHECK(unnoticed_flips(20'000, 1) == 0); }

TEST_CASE("checkpoint crash: every one of a million flipped bits is noticed", "[sim][.long]") {
  CHECK(unnoticed_flips(1'000'000, 2) == 0);
}

TEST_CASE("checkpoint crash: with a flipped bit anywhere on the disk, the newest or the one before comes back",
          "[sim][fast]") {
  sim::disk disk;
  auto checkpoints = open(disk, {});
  knowledge known;
  for (std::uint64_t step = 1; step <= 4; ++step) REQUIRE(save(checkpoints, known, {step, 0}, {}));
  std::size_t went_back = 0;
  for (const std::uint64_t step : {3U, 4U}) {
    const std::string path = std::string{folder} + '/' + io::checkpoint_name(step);
    const std::uint64_t bits = 8 * disk.read(path).value().size();
    for (std::uint64_t bit = 0; bit < bits; ++bit) {
      sim::disk damaged = disk.clone();
      REQUIRE(damaged.flip(path, bit));
      auto reopened = open(damaged, {});
      saved loaded;
      REQUIRE(violation(reopened, known, {.flips = 1}, &loaded) == "");
      REQUIRE(loaded.step == (step == 4 ? 3 : 4));
      went_back += step == 4 ? 1 : 0;
    }
  }
  CHECK(went_back > 1000);
}

TEST_CASE("checkpoint crash: a half-written file of a dead process does not fill the disk for ever", "[sim][fast]") {
  sim::disk disk;
  knowledge known;
  {
    auto checkpoints = open(disk, {.large = true});
    for (std::uint64_t step = 1; step <= 2; ++step) REQUIRE(save(checkpoints, known, {step, 0}, {.large = true}));
  }
  std::uint64_t used = 0;
  const auto names = disk.list(folder).value();
  for (const std::string& name : names) used += disk.read(std::string{folder} + '/' + name).value().size();
  std::uint64_t next = 3;  // one that is large, killed just before it is whole
  while (bytes_of({next, 0}, true).size() < 10'000) ++next;
  const std::uint64_t capacity = used + bytes_of({next, 0}, true).size() + 1000;
  disk.set_faults({.halt = 8, .capacity = capacity});
  auto dying = open(disk, {.large = true});
  REQUIRE_FALSE(save(dying, known, {next, 0}, {.large = true}));
  for (int i = 0; i < 2; ++i) disk.kill();
  auto checkpoints = open(disk, {.large = true});
  REQUIRE(disk.list(folder).value().size() == 3);
  disk.set_faults({.capacity = capacity});
  CHECK(save(checkpoints, known, {next, 0}, {.large = true}));
}

TEST_CASE("checkpoint crash: a file that could not be read once is kept until it is too old", "[sim][fast]") {
  sim::disk disk;
  knowledge known;
  auto checkpoints = open(disk, {});
  for (std::uint64_t step = 1; step <= 2; ++step) REQUIRE(save(checkpoints, known, {step, 0}, {}));
  disk.set_faults({.fail_read = 1});
  CHECK(checkpoints.load_newest().value().file.stamp().step == 1);
  REQUIRE(save(checkpoints, known, {3, 0}, {}));
  CHECK(checkpoints.steps().value() == std::vector<std::uint64_t>{1, 2, 3});  // 1 and 3 are good for sure, 2 may be
  CHECK(checkpoints.load(2));
  REQUIRE(save(checkpoints, known, {4, 0}, {}));
  CHECK(checkpoints.steps().value() == std::vector<std::uint64_t>{3, 4});
}

TEST_CASE("checkpoint crash: a save that failed at its very end leaves no file that may vanish", "[sim][fast]") {
  sim::disk disk;
  knowledge known;
  auto checkpoints = open(disk, {});
  for (std::uint64_t step = 1; step <= 2; ++step) REQUIRE(save(checkpoints, known, {step, 0}, {}));
  disk.set_faults({.fail_sync_folder = 1});
  REQUIRE_FALSE(save(checkpoints, known, {3, 0}, {}));
  CHECK(checkpoints.steps().value() == std::vector<std::uint64_t>{1, 2});
  REQUIRE(save(checkpoints, known, {4, 0}, {}));
  CHECK(checkpoints.steps().value() == std::vector<std::uint64_t>{2, 4});
}

// ---- controls: each leaves out one care, and must be caught ------------------------------------------------------------

TEST_CASE("checkpoint crash, control: a file system without fsync is caught", "[sim][fast]") {
  CHECK(exhaust(5, 10'000, {.missing = careless::fault::no_sync}).violation != "");
  CHECK(many_lives(500, {.missing = careless::fault::no_sync}, {}).violation != "");
}

TEST_CASE("checkpoint crash, control: one without fsync of the folder is caught", "[sim][fast]") {
  CHECK(exhaust(5, 10'000, {.missing = careless::fault::no_folder_sync}).violation != "");
  CHECK(many_lives(500, {.missing = careless::fault::no_folder_sync}, {}).violation != "");
}

TEST_CASE("checkpoint crash, control: bytes synced after their name are caught", "[sim][fast]") {
  CHECK(replace_again_and_again({.missing = careless::fault::sync_after_rename}).violation != "");
}

TEST_CASE("checkpoint crash, control: a sync tried again until it succeeds is caught", "[sim][fast]") {
  const dangers only_failures{.kills = false, .flips = false};
  CHECK(many_lives(500, {.missing = careless::fault::sync_again}, only_failures).violation != "");
}

TEST_CASE("checkpoint crash, control: folders above that are not synced are caught", "[sim][fast]") {
  CHECK(exhaust(2, 10'000, {.missing = careless::fault::no_sync_above}).violation != "");
}
