// expect: causeway-A3
// SPDX-License-Identifier: Apache-2.0
#include "rounds.hpp"

causeway::comm::rounds policy{axis::every{5}, axis::delayed{1, 0.5F}};
