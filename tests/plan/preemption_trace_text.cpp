// SPDX-License-Identifier: Apache-2.0
#include <causeway/plan/preemption_trace_text.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;
using namespace causeway::plan;

namespace {

std::string error_of(const std::string& text) {
  const auto t = read_trace(text);
  REQUIRE_FALSE(t);
  return t.error().text();
}

}  // namespace

TEST_CASE("a trace that was written is read as it was", "[plan][fast]") {
  trace_options o;
  o.hours = 5;
  o.hourly_loss_share = 0.33;
  const preemption_trace t = make_trace(o, 9);
  const auto again = read_trace(write_trace(t));
  REQUIRE(again);
  CHECK(*again == t);
}

TEST_CASE("Oobleck's columns: milliseconds, add or remove, instance", "[plan][fast]") {
  const auto t = read_trace("0,add,node1\n0,add,node2\n480000,remove,node1\n500000,add,node1\n");
  REQUIRE(t);
  CHECK(t->instances.size() == 2);
  CHECK(t->seconds == Approx(500));
  REQUIRE(t->events.size() == 4);
  CHECK(t->events[2] == instance_event{480, false, 0});
  CHECK(t->events[3] == instance_event{500, true, 0});
}

TEST_CASE("Bamboo's and Parcae's columns: time and how many instances there are", "[plan][fast]") {
  trace_text_options o;
  o.per_second = 1;
  const auto t = read_trace("0,3\n60,3\n60,1\n90,4\n", o);
  REQUIRE(t);
  const trace_summary s = summary_of(*t);
  CHECK(s.losses == 2);
  CHECK(s.most == 4);
  CHECK(s.mean_instances == Approx((3 * 60 + 1 * 30) / 90.0));
  CHECK(t->instances.size() == 6);  // who comes is new
  CHECK(*t == *read_trace("0,3\n60,3\n60,1\n90,4\n", o));
  o.seed = 1;
  bool other = false;
  for (; o.seed < 20; ++o.seed) other = other || !(*read_trace("0,3\n60,3\n60,1\n90,4\n", o) == *t);
  CHECK(other);  // which leave is drawn
}

TEST_CASE("columns with names may come in any order, with others among them", "[plan][fast]") {
  const auto t = read_trace("# measured\nzone,price,event,node,seconds\nb,0.9,add,x,1.5 # first\n\n a , , add , y , 2\r\n");
  REQUIRE(t);
  CHECK(t->zones == std::vector<std::string>{"b", "a"});
  CHECK(t->events == std::vector<instance_event>{{1.5, true, 0}, {2, true, 1}});
}

TEST_CASE("errors of traces name the line and what is wrong", "[plan][fast]") {
  CHECK(error_of("").find("no line with a time") != std::string::npos);
  CHECK(error_of("0,add,a\n1,lost,a\n").find("line 2: the event is add, remove or end") != std::string::npos);
  CHECK(error_of("0,add,a\n\n5,add,a\n").find("line 3: \"a\" is there already") != std::string::npos);
  CHECK(error_of("0,remove,a\n").find("is not there") != std::string::npos);
  CHECK(error_of("5,add,a\n4,add,b\n").find("line 2: goes back in time") != std::string::npos);
  CHECK(error_of("0,add,a\n1,add\n").find("line 2: has 2 fields, the first line 3") != std::string::npos);
  CHECK(error_of("0,add,a\n1x,add,b\n").find("not a number") != std::string::npos);
  CHECK(error_of("0,add,a\nnan,add,b\n").find("must be finite") != std::string::npos);
  CHECK(error_of("-1,add,a\n").find("from 0 to 1e9") != std::string::npos);
  CHECK(error_of("1e300,add,a\n").find("from 0 to 1e9") != std::string::npos);
  CHECK(error_of("0,1,2,3\n").find("has 2 (time,count) or 3") != std::string::npos);
  CHECK(error_of("0,-1\n").find("whole number") != std::string::npos);
  CHECK(error_of("0,65537\n").find("whole number") != std::string::npos);
  CHECK(error_of("0,1.5\n").find("whole number") != std::string::npos);
  CHECK(error_of("zone,event,node\n").find("names no column seconds") != std::string::npos);
  CHECK(error_of("time,event\n").find("either event and instance, or count") != std::string::npos);
  CHECK(error_of("time,event,node,count\n").find("either event and instance, or count") != std::string::npos);
  CHECK(error_of("time,seconds,count\n").find("twice") != std::string::npos);
  CHECK(error_of("time,event,node,zone\n0,add,a,x\n1,remove,a,y\n").find("another zone") != std::string::npos);
  CHECK(error_of("0,add," + std::string(65, 'a') + "\n").find("1 to 64 bytes") != std::string::npos);
}

TEST_CASE("a torn trace is an error or a shorter trace, whatever byte it ends at", "[plan][fast]") {
  trace_options o;
  o.hours = 1;
  o.instances = 4;
  const std::string text = write_trace(make_trace(o, 2));
  std::size_t whole = 0;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto t = read_trace(text.substr(0, n));
    whole += t.has_value() ? 1U : 0U;
    if (t) CHECK(t->events.size() <= 64);
  }
  CHECK(whole > 0);
  CHECK(read_trace(std::string(std::size_t{17} << 20U, 'x')).error().code == errc::too_large);
}

TEST_CASE("counts that jump up and down do not make a trace without bound", "[plan][fast]") {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "0,65536\n0,0\n";
  const auto t = read_trace(text);
  REQUIRE_FALSE(t);
  CHECK(t.error().code == errc::too_large);
}

TEST_CASE("a trace with changed bytes is refused, or is one in which instances leave only where they are", "[plan][fast]") {
  trace_options o;
  o.hours = 2;
  o.instances = 5;
  o.hourly_loss_share = 1;
  const std::string whole = write_trace(make_trace(o, 6));
  rng draw{12};
  std::size_t read = 0, refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = whole;
    for (std::uint64_t n = 1 + draw.below(3); n > 0; --n)
      text[draw.below(text.size())] = "0123456789,adn\n#\0 e-."[draw.below(22)];
    const auto t = read_trace(text);
    if (!t) {
      ++refused;
      continue;
    }
    ++read;
    std::vector<int> here(t->instances.size());
    double last = 0;
    for (const instance_event& e : t->events) {
      REQUIRE(e.seconds >= last);
      REQUIRE(e.instance < here.size());
      REQUIRE(here[e.instance] == (e.arrives ? 0 : 1));
      REQUIRE(t->instances[e.instance].zone < t->zones.size());
      here[e.instance] = e.arrives ? 1 : 0;
      last = e.seconds;
    }
    REQUIRE(t->seconds >= last);
  }
  CHECK(read > 100);
  CHECK(refused > 100);
}
