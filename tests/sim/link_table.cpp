// SPDX-License-Identifier: Apache-2.0
#include <causeway/sim/link_table.hpp>

#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace cw = causeway;
namespace sim = causeway::sim;
using namespace std::chrono_literals;

namespace {

std::string file(const std::string& name) {
  const auto path = std::filesystem::path{__FILE__}.parent_path() / ".." / ".." / "bench" / "sim" / "networks" / name;
  std::ifstream in{path};
  REQUIRE(in);
  return {std::istreambuf_iterator<char>{in}, {}};
}

cw::error refused(const std::string& text) {
  const auto table = sim::link_table::parse(text, "net.csv");
  REQUIRE_FALSE(table);
  return table.error();
}

// Takes what apply_to gives.
struct recording_world {
  struct options {
    cw::duration latency{0};
    double bytes_per_s = 0;
    cw::duration jitter{0};
    double loss = 0;
  };
  void set_region_link(std::uint32_t from, std::uint32_t to, const options& o) { links[{from, to}] = o; }
  std::map<std::pair<std::uint32_t, std::uint32_t>, options> links;
};

}  // namespace

TEST_CASE("link table: a row holds for both directions, unless the other one has its own", "[sim][fast]") {
  const auto table = sim::link_table::parse(
                         "# a comment\n\n from, to, rtt_ms, mbit_s, jitter_ms, loss\r\n"
                         "A,B,100,80,1.5,0.01  # over the sea\r\nA,A,1,1000,0,0\nB,A,60,8,0,0\nB,C,2,1,0,0\n",
                         "net.csv")
                         .value();
  CHECK(table.regions() == std::vector<std::string>{"A", "B", "C"});
  CHECK(table.index_of("C") == 2U);
  CHECK_FALSE(table.index_of("D"));
  const sim::region_link* there = table.find(0, 1);
  REQUIRE(there != nullptr);
  CHECK((there->from == "A" && there->to == "B"));
  CHECK(there->one_way == 50ms);
  CHECK(there->bytes_per_s == 10e6);
  CHECK(there->jitter == 1500us);
  CHECK(there->loss == 0.01);
  CHECK(table.find(1, 0)->one_way == 30ms);
  CHECK(table.find(1, 0)->from == "B");
  CHECK(table.find(2, 1)->bytes_per_s == table.find(1, 2)->bytes_per_s);
  CHECK(table.find(0, 2) == nullptr);
  CHECK(table.missing() ==
        std::vector<std::pair<std::string, std::string>>{{"A", "C"}, {"B", "B"}, {"C", "A"}, {"C", "C"}});
}

TEST_CASE("link table: latency may be one way", "[sim][fast]") {
  CHECK(sim::link_table::parse("from,to,one_way_ms,mbit_s\nA,B,0.25,8").value().find(0, 1)->one_way == 250us);
}

TEST_CASE("link table: what is wrong is said with its line", "[sim][fast]") {
  const std::string head = "from,to,rtt_ms,mbit_s\n";
  const std::pair<std::string, std::string> cases[] = {
      {"A,B,1,1\n", "first line must be"},
      {"from,to,rtt_ms\nA,B,1\n", "first line must be"},
      {"from,to,rtt_ms,mbit_s,loss\n", "first line must be"},
      {head + "A,B,1\n", "has 3 fields, the first line has 4"},
      {head + "A,B,1,1,1\n", "has 5 fields"},
      {head + "A,B,x,1\n", "the latency in ms is not a number: \"x\""},
      {head + "A,B,1 2,1\n", "is not a number"},
      {head + "A,B,-1,1\n", "out of range"},
      {head + "A,B,nan,1\n", "must be finite"},
      {head + "A,B,1,0\n", "out of range"},
      {head + "A,B,1,inf\n", "must be finite"},
      {head + "A,B,,1\n", "is not a number"},
      {head + ",B,1,1\n", "needs a name"},
      {head + "A,B,1,1\n\nA,B,1,1\n", "has a link already"},
      {"from,to,rtt_ms,mbit_s,jitter_ms,loss\nA,B,1,1,0,1\n", "loss is out of range"},
  };
  for (const auto& [text, message] : cases) {
    const cw::error e = refused(text);
    INFO(text << " -> " << e.text());
    CHECK(e.code == cw::errc::bad_text);
    CHECK(e.message.find(message) != std::string::npos);
    CHECK(e.where.find("net.csv, line ") == 0);
  }
  CHECK(refused(head + "A,B,1,1\n\nA,B,1,1\n").where == "net.csv, line 4");
  CHECK(refused(head).message == "holds no links");
  CHECK(refused("").code == cw::errc::bad_text);
  CHECK(refused(std::string((16U << 20U) + 1, '\n')).code == cw::errc::too_large);
}

TEST_CASE("link table: too many regions are refused", "[sim][fast]") {
  std::string text = "from,to,rtt_ms,mbit_s\n";
  for (int i = 0; i < 4100; ++i) text += "r" + std::to_string(i) + ",r0,1,1\n";
  CHECK(refused(text).code == cw::errc::too_large);
}

TEST_CASE("link table: the shipped networks are complete", "[sim][fast]") {
  const auto world = sim::link_table::parse(file("world.csv"), "world.csv").value();
  CHECK(world.regions().size() == 10);
  CHECK(world.missing().empty());
  const auto* far = world.find(world.index_of("Frankfurt").value(), world.index_of("Sydney").value());
  CHECK(far->one_way == 132'500us);
  CHECK(far->bytes_per_s == 41e6);
  CHECK(sim::link_table::parse(file("us.csv")).value().missing().empty());
  CHECK(sim::link_table::parse(file("universities.csv")).value().missing().empty());
  recording_world given;
  world.apply_to(given);
  CHECK(given.links.size() == 100);
  CHECK(given.links[{0, 1}].latency == 33'500us);
}
