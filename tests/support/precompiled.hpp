// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_TESTS_SUPPORT_PRECOMPILED_HPP
#define CAUSEWAY_TESTS_SUPPORT_PRECOMPILED_HPP

// What every file of the tests reads anyway, none of it ours.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"

#endif  // CAUSEWAY_TESTS_SUPPORT_PRECOMPILED_HPP
