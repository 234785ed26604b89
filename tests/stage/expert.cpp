// SPDX-License-Identifier: Apache-2.0
#include <causeway/stage/expert.hpp>

#include <causeway/io/archive.hpp>
#include <causeway/optim/sgd.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace causeway;

namespace {

constexpr std::int64_t width = 5, hidden = 7, rows = 3;
using expert = stage::feed_forward_expert<optim::sgd>;

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  rng draw{seed};
  std::vector<float> values(count);
  for (float& v : values) v = draw.normal();
  return values;
}

expert make(float rate = 0.5F, float clip = 0) {
  return expert{{.width = width, .hidden = hidden, .learning_rate = rate, .clip_norm = clip, .seed = 3}};
}

double loss(expert& e, const std::vector<float>& x, const std::vector<float>& dy) {
  std::vector<float> y(x.size());
  REQUIRE(e.forward(x, y));
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * static_cast<double>(dy[i]);
  return sum;
}

}  // namespace

TEST_CASE("expert: a backward gives the gradient of before and moves the parameters against theirs", "[stage][fast]") {
  constexpr float rate = 0.5F, h = 1e-2F;
  auto before = make(), moved = make();
  auto x = normal(rows * width, 1);
  const auto dy = normal(rows * width, 2);
  std::vector<float> dx(x.size());
  REQUIRE(moved.backward(x, dy, dx));
  CHECK(moved.updates() == 1);
  const auto slope = [&](float& at) {
    const float is = at;
    at = is + h;
    const double up = loss(before, x, dy);
    at = is - h;
    const double down = loss(before, x, dy);
    at = is;
    return (up - down) / (2 * static_cast<double>(h));
  };
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(static_cast<double>(dx[i]) == Approx(slope(x[i])).margin(2e-3));
  double largest = 0;
  const auto old = before.parameters().values(), now = moved.parameters().values();
  for (const parameter_segment& s : before.parameters().segments()) {
    for (auto i = static_cast<std::size_t>(s.offset); i < static_cast<std::size_t>(s.offset + s.size()); ++i) {
      const double step = static_cast<double>(old[i] - now[i]) / static_cast<double>(rate);
      CHECK(step == Approx(slope(old[i])).margin(4e-3));
      largest = std::max(largest, std::abs(step));
    }
  }
  CHECK(largest > 0.5);
}

TEST_CASE("expert: gradients are clipped for each backward", "[stage][fast]") {
  auto free = make(), clipped = make(0.5F, 1e-3F);
  const auto x = normal(rows * width, 1), dy = normal(rows * width, 2);
  std::vector<float> dx(x.size());
  const std::vector<float> start{free.parameters().values().begin(), free.parameters().values().end()};
  REQUIRE(free.backward(x, dy, dx));
  REQUIRE(clipped.backward(x, dy, dx));
  const auto way = [&](expert& e) {
    double sum = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      sum += std::pow(static_cast<double>(e.parameters().values()[i] - start[i]), 2);
    }
    return std::sqrt(sum);
  };
  CHECK(way(clipped) == Approx(0.5e-3).epsilon(1e-2));
  CHECK(way(free) > 1);
}

TEST_CASE("expert: a gradient that is not finite moves nothing", "[stage][fast]") {
  auto e = make();
  const auto x = normal(rows * width, 1);
  auto dy = normal(rows * width, 2);
  dy[4] = std::numeric_limits<float>::infinity();
  std::vector<float> dx(x.size());
  const std::vector<float> start{e.parameters().values().begin(), e.parameters().values().end()};
  const auto outcome = e.backward(x, dy, dx);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == errc::non_finite);
  CHECK(std::equal(start.begin(), start.end(), e.parameters().values().begin()));
  CHECK(e.updates() == 0);
}

TEST_CASE("expert: what is saved and loaded goes on as if nothing had happened", "[stage][fast]") {
  stage::feed_forward_expert<> a{{.width = width, .hidden = hidden, .seed = 3}}, b{{.width = width, .hidden = hidden}};
  const auto x = normal(rows * width, 1), dy = normal(rows * width, 2);
  std::vector<float> dx(x.size()), dx2(x.size());
  REQUIRE(a.backward(x, dy, dx));
  const auto bytes = io::archiver{}.to_bytes(a);
  REQUIRE(bytes);
  REQUIRE(io::archiver{}.from_bytes(*bytes, b));
  REQUIRE(a.backward(x, dy, dx));
  REQUIRE(b.backward(x, dy, dx2));
  CHECK(dx == dx2);
  CHECK(std::equal(a.parameters().values().begin(), a.parameters().values().end(), b.parameters().values().begin()));
}
