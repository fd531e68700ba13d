package weighting

// Continue takes over what old, a controller of the same backend with other
// settings, knows of the servers and the time: which zeros are not believed,
// what is usual, who has just come, who is without data since when, the step of
// max_step in hand. So a change of settings is no way to have it all forgotten.
// The loads must mean the same to both. What only a function knows of its own
// past goes on as long as it is that function; a Weigher starts anew.
//
// Call it before the first Decide, and use old no more.
func (c *Controller) Continue(old *Controller) {
	c.servers, c.passes = old.servers, old.passes
	c.began, c.last, c.seen = old.began, old.last, old.seen
	c.usual, c.step = old.usual, old.step
	if c.settings.Better != old.settings.Better { // totals are of what "better" has made of the values
		c.usual = usualTotal{}
	}
	if c.settings.Function != old.settings.Function {
		for _, m := range c.servers {
			m.tracked = false
		}
	}
}
